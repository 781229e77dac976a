"""What a session is: calls one after another, their log, and its wire forms."""

from ipistate.sessions.codec import (
    RecordedCodec,
    SessionCodec,
    WorldCodec,
    session_from_json,
    session_to_json,
)
from ipistate.sessions.log import RecordedSession, written_error
from ipistate.sessions.session import (
    IdempotencyError,
    Session,
    SessionRangeError,
    Step,
    UnloggedSession,
)
from ipistate.sessions.state import (
    EnvironmentCodec,
    IPICheckpointState,
    SharingCodec,
    StateCodec,
)


__all__ = [
    "EnvironmentCodec",
    "IPICheckpointState",
    "IdempotencyError",
    "RecordedCodec",
    "RecordedSession",
    "Session",
    "SessionCodec",
    "SessionRangeError",
    "SharingCodec",
    "StateCodec",
    "Step",
    "UnloggedSession",
    "WorldCodec",
    "session_from_json",
    "session_to_json",
    "written_error",
]
