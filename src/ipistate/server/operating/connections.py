"""Connections on which nothing moves: how long a client may keep the server waiting.

The ASGI server knows how far its requests are, whichever parser and event loop it uses.
So no request has timers of its own; somebody looks at all connections now and then.
"""

from __future__ import annotations

import errno
import logging

from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs


if TYPE_CHECKING:
    import asyncio

    from collections.abc import Callable, Iterable

    from ipistate.server.operating.settings import ServerSettings

_TIMED_OUT: Final = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
)
_LONGEST_PAUSE: Final = 1.0
"""Seconds between two looks, however long the limits are."""

_EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_SILENCE: Final = 60.0
"""Seconds between two log records about connections that cannot be accepted."""

_log: Final = logging.getLogger("ipistate.server.connections")


class Cycle(Protocol):
    """One request and its response, as uvicorn keeps them."""

    more_body: bool
    response_started: bool
    response_complete: bool


class Flow(Protocol):
    """Which ways of a connection stand still."""

    read_paused: bool
    write_paused: bool


class Connection(Protocol):
    """What uvicorn's protocols have in common, for either parser."""

    @property
    def client(self) -> tuple[str, int] | None:
        """The client's address."""
        ...

    @property
    def transport(self) -> asyncio.Transport:
        """The socket."""
        ...

    @property
    def flow(self) -> Flow:
        """Whether reading and writing go on."""
        ...

    @property
    def cycle(self) -> Cycle | None:
        """The request whose head came last; None before the first."""
        ...

    @property
    def timeout_keep_alive_task(self) -> asyncio.TimerHandle | None:
        """Runs after a response until something comes."""
        ...


class Awaited(StrEnum):
    """What a client has to do next."""

    HEAD = "the head of a request"
    BODY = "the body of a request"
    READING = "taking what was sent"


@attrs.frozen
class _Seen:
    awaited: Awaited
    progress: object
    since: float


class StalledConnections:
    """Closes the connections of clients that keep the server waiting for too long.

    Args:
        settings: Has the limits.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._limits = {
            Awaited.HEAD: settings.header_seconds,
            Awaited.BODY: settings.body_seconds,
            Awaited.READING: settings.body_seconds,
        }
        self._pause = min(_LONGEST_PAUSE, *(s / 4 for s in self._limits.values()))
        self._next = 0.0
        self._seen: dict[Connection, _Seen] = {}

    def look(self, connections: Iterable[Connection], now: float) -> None:
        """Close what is too late; does nothing if it has just been called.

        Args:
            connections: All that are open.
            now: Seconds of a clock that is never set.
        """
        if now < self._next:
            return
        self._next = now + self._pause
        before, self._seen = self._seen, {}
        for connection in tuple(connections):
            awaited = awaited_from(connection)
            if awaited is None:
                continue
            progress = _progress(connection, awaited)
            seen = before.get(connection)
            if seen is None or (seen.awaited, seen.progress) != (awaited, progress):
                seen = _Seen(awaited, progress, now)
            self._seen[connection] = seen
            if now - seen.since >= self._limits[awaited]:
                _give_up(connection, awaited)


class AcceptErrors:
    """An event loop's exception handler that says once a minute what asyncio repeats.

    Without a free file descriptor asyncio reports each of the connections that it
    cannot accept, some thousand times a second, and goes on when there is one again.

    Args:
        clock: Seconds of a clock that is never set.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._said = -inf

    def __call__(
        self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]
    ) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _EXHAUSTED:
            loop.default_exception_handler(context)
        elif self._clock() - self._said >= _SILENCE:
            self._said = self._clock()
            _log.error("no connection can be accepted: %s", error.strerror)


def awaited_from(connection: Connection) -> Awaited | None:
    """Tell what a client has to do next; None if it is not its turn."""
    if connection.transport.is_closing() or connection.flow.write_paused:
        return Awaited.READING
    # The server itself reads no further, or its timer for idle connections runs.
    if connection.flow.read_paused or connection.timeout_keep_alive_task is not None:
        return None
    cycle = connection.cycle
    if cycle is not None and cycle.more_body:
        return Awaited.BODY
    return Awaited.HEAD if cycle is None or cycle.response_complete else None


def _progress(connection: Connection, awaited: Awaited) -> object:
    # A byte now and then is no progress of a request, but it is one of a reader: a long
    # reply may take its time on a slow line.
    if awaited is Awaited.READING:
        return connection.transport.get_write_buffer_size()
    return connection.cycle


def _give_up(connection: Connection, awaited: Awaited) -> None:
    client = ascii(connection.client[0] if connection.client else None)
    extra = {"client": client, "awaited": awaited.name.lower()}
    _log.info("connection of %s closed: no %s", client, awaited.value, extra=extra)
    if awaited is Awaited.READING:
        connection.transport.abort()
        return
    cycle = connection.cycle
    if awaited is Awaited.BODY and cycle is not None and not cycle.response_started:
        connection.transport.write(_TIMED_OUT)
    connection.transport.close()
