"""Who publishes what atomically: checkpoint directories and files."""

from ipistate.storage.atomic_file import AtomicFile, write_atomically
from ipistate.storage.checkpoint_directory import (
    KIND,
    MANIFEST,
    CheckpointDirectory,
    StopFlag,
)


__all__ = [
    "KIND",
    "MANIFEST",
    "AtomicFile",
    "CheckpointDirectory",
    "StopFlag",
    "write_atomically",
]
