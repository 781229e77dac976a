"""Files: checkpoint directories, files that appear whole, lines in bounded memory."""

from ipistate.storage.atomic_file import AtomicFile, write_atomically
from ipistate.storage.checkpoint_directory import (
    GYM,
    MANIFEST,
    CheckpointDirectory,
    StopFlag,
)
from ipistate.storage.json_lines import LONGEST_LINE, LineFormError, bounded_lines
from ipistate.storage.ledger import (
    CaptureLedger,
    LedgerError,
    LedgerRemoval,
    checked_keys,
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
    recorded_episodes,
)
from ipistate.storage.token_store import TokenStore, TokenStoreError


__all__ = [
    "GYM",
    "LONGEST_LINE",
    "MANIFEST",
    "AtomicFile",
    "CaptureLedger",
    "CheckedParticipant",
    "CheckpointDirectory",
    "ComparedParticipant",
    "ComparedSession",
    "LedgerError",
    "LedgerRemoval",
    "LineFormError",
    "MigratingParticipant",
    "NewCheckpoint",
    "StopFlag",
    "TokenStore",
    "TokenStoreError",
    "bounded_lines",
    "check_participant",
    "checked_keys",
    "compare_participants",
    "participants",
    "recorded_episodes",
    "write_atomically",
]
