"""Who publishes what atomically: checkpoint directories and files."""

from ipistate.storage.checkpoint_directory import (
    KIND,
    MANIFEST,
    CheckpointDirectory,
    StopFlag,
)


__all__ = [
    "KIND",
    "MANIFEST",
    "CheckpointDirectory",
    "StopFlag",
]
