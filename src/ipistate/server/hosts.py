"""Which ``Host`` a request may name: a page of a foreign site may not talk to a server.

A browser lets a page talk to the site that it came from, and a site's name can be made
to mean this machine. The name that the browser then sends tells.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

import attrs

from ipistate.server.replies import detail


if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from ipistate.server.operating.observer import Observer
    from ipistate.server.operating.settings import ServerSettings

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")

_REMEMBERED: Final = 64
"""Different good values of the header that are known without a second look."""

_REFUSED: Final = "the Host of this request is none that this server answers to"


class HostLayer:
    """ASGI middleware outside of all others.

    A request without the header passes: no browser makes one.

    Args:
        app: Serves the requests that pass.
        hosts: Names and addresses, without ports.
        observer: Is told of refusals.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str], observer: Observer) -> None:
        self._app = app
        self._hosts = frozenset(host.lower().strip("[]") for host in hosts)
        self._observer = observer
        self._good: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            for name, value in scope["headers"]:
                if (
                    name == b"host"
                    and value not in self._good
                    and not self._take(value)
                ):
                    self._observer.refused("foreign_host")
                    await detail(400, _REFUSED)(scope, receive, send)
                    return
        await self._app(scope, receive, send)

    def _take(self, value: bytes) -> bool:
        if host_in(value.decode("latin-1")) not in self._hosts:
            return False
        if len(self._good) < _REMEMBERED:
            self._good.add(value)
        return True


def host_in(header: str) -> str:
    """Return the name or the address of a ``Host`` header, without the port."""
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_everywhere(host: str) -> bool:
    """Tell whether an address to listen on means all addresses of this machine."""
    try:
        return ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return not host


def with_hosts(settings: ServerSettings, host: str) -> ServerSettings:
    """Decide which hosts a server may be asked for that listens on this address.

    On a loopback address these are loopback names: no other can be meant. Elsewhere
    it depends on names that only the operator knows, so a server that is not hardened
    answers to any.

    Raises:
        ValueError: A hardened server listens everywhere, and no host is named.
    """
    if settings.allowed_hosts is not None:
        return settings
    if is_loopback(host):
        return attrs.evolve(settings, allowed_hosts=(*LOOPBACK, host))
    if not settings.hardened:
        return settings
    if is_everywhere(host):
        raise ValueError(f"a hardened server on {host} needs its names: --allowed-host")
    return attrs.evolve(settings, allowed_hosts=(host,))
