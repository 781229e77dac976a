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

from ipistate.coordination.client import ControlClient
from ipistate.coordination.coordinator import Coordinator, Watcher
from ipistate.coordination.discovery import discover, discover_urls
from ipistate.coordination.failures import (
    CoordinationError,
    DiscoveryError,
    Failure,
    OperationFailedError,
    Reason,
    RestoreFailedError,
)
from ipistate.coordination.participants import Address, Kind, Participant
from ipistate.coordination.results import (
    Answer,
    Committed,
    Forgotten,
    Prepared,
    Renewed,
    Restored,
    Resumed,
    Retired,
    Statuses,
)


del _httpx

__all__ = [
    "Address",
    "Answer",
    "Committed",
    "ControlClient",
    "CoordinationError",
    "Coordinator",
    "DiscoveryError",
    "Failure",
    "Forgotten",
    "Kind",
    "OperationFailedError",
    "Participant",
    "Prepared",
    "Reason",
    "Renewed",
    "RestoreFailedError",
    "Restored",
    "Resumed",
    "Retired",
    "Statuses",
    "Watcher",
    "discover",
    "discover_urls",
]
