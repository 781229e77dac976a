"""What publishes files atomically: checkpoint directories and single files."""

from ipistate.storage.atomic_file import AtomicFile, write_atomically
from ipistate.storage.checkpoint_directory import (
    GYM,
    KIND,
    MANIFEST,
    CheckpointDirectory,
    StopFlag,
)
from ipistate.storage.comparison import (
    ComparedParticipant,
    ComparedSession,
    compare_participants,
)
from ipistate.storage.migration import MigratingParticipant, NewCheckpoint
from ipistate.storage.participants import (
    CheckedParticipant,
    check_participant,
    participants,
)


__all__ = [
    "GYM",
    "KIND",
    "MANIFEST",
    "AtomicFile",
    "CheckedParticipant",
    "CheckpointDirectory",
    "ComparedParticipant",
    "ComparedSession",
    "MigratingParticipant",
    "NewCheckpoint",
    "StopFlag",
    "check_participant",
    "compare_participants",
    "participants",
    "write_atomically",
]
