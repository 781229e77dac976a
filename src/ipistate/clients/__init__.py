"""Speaks to servers: HTTP with bounds, the control client, and what is built on it.

Needs the ``client`` extra.
"""

from __future__ import annotations


try:
    import aiohttp as _aiohttp
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        "ipistate.clients needs aiohttp: pip install 'ipistate[client]'",
        name=_error.name,
    ) from _error

from ipistate.clients.control_client import ControlClient
from ipistate.clients.coordinator import CoordinationWatcher, Coordinator
from ipistate.clients.discovery import discover, discover_urls
from ipistate.clients.http import (
    JSON,
    BearerKey,
    Bounds,
    HttpAnswer,
    HttpClient,
    HttpError,
    Resolver,
    base_url,
    environment_proxy,
)


del _aiohttp

__all__ = [
    "JSON",
    "BearerKey",
    "Bounds",
    "ControlClient",
    "CoordinationWatcher",
    "Coordinator",
    "HttpAnswer",
    "HttpClient",
    "HttpError",
    "Resolver",
    "base_url",
    "discover",
    "discover_urls",
    "environment_proxy",
]
