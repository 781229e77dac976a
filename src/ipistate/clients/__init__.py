"""Speaks to servers: HTTP with bounds, the control client, and what is built on it.

Needs the ``client`` extra.
"""

from __future__ import annotations

from ipistate.clients.variables import (
    check_environment,
    environment_proxy,
)
from ipistate.clients.variables import (
    unusable as _unusable,
)


try:
    import aiohttp as _aiohttp
except OSError as _error:
    # It makes its TLS contexts when it is imported, and they open this file.
    raise _unusable("SSLKEYLOGFILE", f"cannot be written to ({_error})") from _error
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
)


del _aiohttp, _unusable

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
    "check_environment",
    "discover",
    "discover_urls",
    "environment_proxy",
]
