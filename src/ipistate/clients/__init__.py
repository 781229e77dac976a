"""Speaks to servers of a deployment: one control client, and what is built on it.

Needs the ``client`` extra.
"""

from __future__ import annotations


try:
    import httpx as _httpx
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        "ipistate.clients needs httpx: pip install 'ipistate[client]'",
        name=_error.name,
    ) from _error

from ipistate.clients.control_client import ControlClient
from ipistate.clients.coordinator import CoordinationWatcher, Coordinator
from ipistate.clients.discovery import discover, discover_urls


del _httpx

__all__ = [
    "ControlClient",
    "CoordinationWatcher",
    "Coordinator",
    "discover",
    "discover_urls",
]
