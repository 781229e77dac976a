"""What publishes files atomically: checkpoint directories and single files."""

from ipistate.storage.atomic_file import AtomicFile, write_atomically
from ipistate.storage.checkpoint_directory import (
    GYM,
    MANIFEST,
    CheckpointDirectory,
    StopFlag,
)
from ipistate.storage.participants import (
    CheckedParticipant,
    ComparedParticipant,
    ComparedSession,
    MigratingParticipant,
    NewCheckpoint,
    check_participant,
    compare_participants,
    participants,
)


__all__ = [
    "GYM",
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
