"""The checkpoints of a deployment: which server is asked what, and in which order.

Pure: ``clients`` makes the calls.
"""

from ipistate.coordination import plans
from ipistate.coordination.failures import (
    CoordinationError,
    DiscoveryError,
    Failure,
    FailureReason,
    MissingEpisodesError,
    OperationFailedError,
    RestoreFailedError,
)
from ipistate.coordination.participants import (
    MAX_PORT,
    Kind,
    Participant,
    ServerAddress,
    addresses,
    ordered,
)
from ipistate.coordination.plans import (
    STATUS_SECONDS,
    Broadcast,
    Plan,
    PlanOutcome,
    patience,
)
from ipistate.coordination.replies import (
    CommitReply,
    Introduction,
    PreparedReport,
    RestoreReply,
    StatusReply,
)
from ipistate.coordination.results import (
    Committed,
    Forgotten,
    ParticipantAnswer,
    Prepared,
    Renewed,
    Restored,
    Resumed,
    Retired,
    Statuses,
)


__all__ = [
    "MAX_PORT",
    "STATUS_SECONDS",
    "Broadcast",
    "CommitReply",
    "Committed",
    "CoordinationError",
    "DiscoveryError",
    "Failure",
    "FailureReason",
    "Forgotten",
    "Introduction",
    "Kind",
    "MissingEpisodesError",
    "OperationFailedError",
    "Participant",
    "ParticipantAnswer",
    "Plan",
    "PlanOutcome",
    "Prepared",
    "PreparedReport",
    "Renewed",
    "RestoreFailedError",
    "RestoreReply",
    "Restored",
    "Resumed",
    "Retired",
    "ServerAddress",
    "StatusReply",
    "Statuses",
    "addresses",
    "ordered",
    "patience",
    "plans",
]
