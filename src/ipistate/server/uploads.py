"""Bodies while they arrive: how long one may be, and all of them together.

A request asks at the gate when its body is complete. An upload that never ends is then
no request in flight, and no checkpoint waits for it.
"""

from __future__ import annotations

from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, Final

from starlette.middleware.body_limit import (
    RequestBodyLimitMiddleware,
    RequestBodyLimitResponder,
)
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from ipistate.errors import IpiStateError
from ipistate.protocol import CONTROL_PREFIX


if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from starlette.responses import Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LENGTH_DIGITS: Final = 18
_READING: Final = frozenset({"GET", "HEAD"})


class UploadsFullError(IpiStateError):
    """There is no room for more of a body now."""


class BodyLimitLayer(RequestBodyLimitMiddleware):
    """Starlette's limit, without its cost for bodies that declare a length within it.

    The HTTP parser holds a body to its declared length. A transfer coding overrides
    that length, so then the bytes are counted.

    Args:
        app: Has the routes.
        max_body_size: Bytes of a body.
        others: The same for paths that have a limit of their own.
    """

    def __init__(
        self, app: ASGIApp, max_body_size: int, others: Mapping[str, int]
    ) -> None:
        super().__init__(app, max_body_size)
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit = self._others.get(scope["path"], self.max_body_size)
        if _declared(scope) <= limit:
            await self.app(scope, receive, send)
        else:
            await RequestBodyLimitResponder(self.app, limit)(scope, receive, send)


def _declared(scope: Scope) -> float:
    length = inf
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            length = int(value[:_LENGTH_DIGITS])
        elif name == b"transfer-encoding":
            return inf
    return length


class Uploads:
    """The bodies in memory of requests that have no answer yet.

    Args:
        limit: Bytes of all of them together.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.size: int = 0

    @contextmanager
    def one(self) -> Generator[Upload]:
        """Give room to a body, which counts until it is not needed any more."""
        upload = Upload(self)
        try:
            yield upload
        finally:
            self.size -= upload.size

    def grow(self, size: int) -> None:
        """Count more bytes.

        Raises:
            UploadsFullError: ``too_many_uploads``; nothing is counted.
        """
        if self.size + size > self._limit:
            message = f"request bodies are held up to {self._limit:,} bytes in all"
            raise UploadsFullError("too_many_uploads", message)
        self.size += size


class Upload:
    """One body on its way."""

    def __init__(self, uploads: Uploads) -> None:
        self._uploads = uploads
        self.size: int = 0

    async def body(self, receive: Receive) -> bytes:
        """Receive all of it.

        Raises:
            ClientDisconnect: The client went away before it was complete.
            UploadsFullError: ``too_many_uploads``.
        """
        piece, more = await self._piece(receive)
        if not more:
            return piece
        # One buffer: many small pieces would take more memory than what is counted.
        received = bytearray(piece)
        while more:
            piece, more = await self._piece(receive)
            received += piece
        return bytes(received)

    async def _piece(self, receive: Receive) -> tuple[bytes, bool]:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece: bytes = message.get("body", b"")
        self._uploads.grow(len(piece))
        self.size += len(piece)
        return piece, message.get("more_body", False)


class WholeBodyLayer:
    """ASGI middleware that lets requests on when their bodies are complete.

    Calls of the control plane are not counted: their callers have the token, and a
    checkpoint must be possible whatever others send.

    Args:
        app: Has the gate.
        uploads: What is held already.
        routes: The routes; the body of what none of them serves is not kept.
        answer: Gives the reply to an error.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        uploads: Uploads,
        routes: Sequence[Route],
        answer: Callable[[Exception], Response],
    ) -> None:
        self._app = app
        self._uploads = uploads
        self._routes = routes
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] != "http"
            or scope["method"] in _READING
            or scope["path"].startswith(CONTROL_PREFIX)
        ):
            await self._app(scope, receive, send)
            return
        if not any(route.matches(scope)[0] is Match.FULL for route in self._routes):
            await self._app(scope, _without_body(receive), send)
            return
        with self._uploads.one() as upload:
            try:
                body = await upload.body(receive)
            except (ClientDisconnect, UploadsFullError) as error:
                await self._answer(error)(scope, receive, send)
                return
            whole = {"type": "http.request", "body": body, "more_body": False}
            await self._app(scope, again(whole, receive), send)


def again(message: Message, receive: Receive) -> Receive:
    """Return a channel that gives a message once more, then what comes after it."""
    first = [message]

    async def channel() -> Message:
        return first.pop() if first else await receive()

    return channel


def _without_body(receive: Receive) -> Receive:
    async def channel() -> Message:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return message

    return channel
