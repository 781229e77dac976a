"""Drives the checkpoints of a deployment: all participants, in the protocol's orders.

Needs the ``client`` extra.
"""

from __future__ import annotations


try:
    import httpx as _httpx
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        "ipistate.coordination needs httpx: pip install 'ipistate[client]'",
        name=_error.name,
    ) from _error

from ipistate.clients.control_client import ControlClient
from ipistate.clients.coordinator import CoordinationWatcher, Coordinator
from ipistate.clients.discovery import discover, discover_urls
from ipistate.coordination.failures import (
    CoordinationError,
    DiscoveryError,
    Failure,
    FailureReason,
    OperationFailedError,
    RestoreFailedError,
)
from ipistate.coordination.participants import Kind, Participant, ServerAddress
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


del _httpx

__all__ = [
    "Committed",
    "ControlClient",
    "CoordinationError",
    "CoordinationWatcher",
    "Coordinator",
    "DiscoveryError",
    "Failure",
    "FailureReason",
    "Forgotten",
    "Kind",
    "OperationFailedError",
    "Participant",
    "ParticipantAnswer",
    "Prepared",
    "Renewed",
    "RestoreFailedError",
    "Restored",
    "Resumed",
    "Retired",
    "ServerAddress",
    "Statuses",
    "discover",
    "discover_urls",
]
