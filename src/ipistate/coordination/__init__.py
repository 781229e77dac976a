"""Drives the checkpoints of a deployment: all participants, in the protocol's orders.

Needs the ``client`` extra.
"""

from ipistate.coordination import plans
from ipistate.coordination.failures import (
    CoordinationError,
    DiscoveryError,
    Failure,
    FailureReason,
    OperationFailedError,
    RestoreFailedError,
)
from ipistate.coordination.orders import ordered
from ipistate.coordination.participants import (
    Kind,
    Participant,
    ServerAddress,
    addresses,
)
from ipistate.coordination.plans import Broadcast, Plan, PlanOutcome
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
from ipistate.coordination.scope import STATUS_SECONDS, patience


__all__ = [
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
