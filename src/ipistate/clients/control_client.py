"""HTTP to participants: one call at a time, bounded, its answer read or its failure named."""

from __future__ import annotations

import logging
import time

from http import HTTPStatus
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from ipistate.clients.http import JSON, BearerKey, Bounds, HttpClient, HttpError
from ipistate.coordination import Failure, FailureReason
from ipistate.errors import DecodeError, SchemaError, preview
from ipistate.kernel import decode, encode, freeze, is_object, structure
from ipistate.protocol import CHECKPOINT_PATH, TIME_HEADER


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ipistate.clients.http import HttpAnswer, Resolver
    from ipistate.coordination import ServerAddress

R = TypeVar("R")

MAX_REPLY_BYTES: Final = 64 * 2**20
"""Size from which on an answer is not read further."""

PAUSES: Final = (0.0, 0.5)
"""Seconds before the second and the third try to connect to a server."""

MIN_SKEW: Final = 1.0
"""Seconds from which on two clocks differ."""

_log: Final = logging.getLogger("ipistate.clients.control")

_REASONS: Final = {
    "timed_out": FailureReason.TIMED_OUT,
    "too_large": FailureReason.INVALID_REPLY,
}
"""What a failed request means; all that is not here, that the server is unreachable."""


def _check_token(token: str) -> None:
    if not (token.isascii() and token.isprintable() and token.strip() == token != ""):
        raise ValueError("a token is printable ASCII text and not empty")


class ControlClient:
    """The control plane's calls, with the bearer token of a deployment.

    An asynchronous context manager. Each call has a connection of its own, so that
    none fails because an idle one was closed meanwhile. Proxies and other settings of
    the process's environment are ignored, redirects are not followed.

    Deadlines are given in the time of this machine. A server that tells its time with
    its replies gets them in its own time.

    Args:
        token: The deployment's control token.
        resolver: Finds hosts instead of the system, for tests.
        pauses: Seconds before each further try to connect.
        clock: Gives the time in seconds since the epoch.

    Raises:
        ValueError: The token cannot stand in a header.
    """

    def __init__(
        self,
        token: str,
        *,
        resolver: Resolver | None = None,
        pauses: Sequence[float] = PAUSES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        _check_token(token)
        self._clock = clock
        self._ahead: dict[str, float] = {}
        self._client = HttpClient(
            key=BearerKey(token, "[token]"),
            idle_seconds=0,
            pauses=pauses,
            resolver=resolver,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def status(
        self, server: ServerAddress, reply: type[R], seconds: float
    ) -> R | Failure:
        """Ask for the status, which may take so many seconds, and read it."""
        return await self._called(server, "status", None, reply, seconds)

    async def operate(
        self,
        server: ServerAddress,
        operation: str,
        body: Mapping[str, Any],
        reply: type[R],
        seconds: float,
    ) -> R | Failure:
        """Make a call that may take so many seconds in all, and read its reply.

        It may be repeated: the protocol's operations have the effect of one call.
        """
        content = encode(freeze(self._in_time_of(server, body)))
        return await self._called(server, operation, content, reply, seconds)

    def _in_time_of(
        self, server: ServerAddress, body: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        ahead = self._ahead.get(server.url)
        if ahead is None:
            return body
        return {**body, "deadline_ts": body["deadline_ts"] + ahead}

    async def _called(
        self,
        server: ServerAddress,
        operation: str,
        content: bytes | None,
        reply: type[R],
        seconds: float,
    ) -> R | Failure:
        try:
            answer = await self._client.send(
                "GET" if content is None else "POST",
                server.url,
                f"{CHECKPOINT_PATH}/{operation}",
                content,
                bounds=Bounds(size=MAX_REPLY_BYTES, total=seconds),
                headers={} if content is None else JSON,
            )
        except HttpError as error:
            late = error.code == "timed_out"
            return Failure(
                server=server,
                operation=operation,
                reason=_REASONS.get(error.code, FailureReason.UNREACHABLE),
                detail=f"no answer within {seconds:.1f} s" if late else error.message,
            )
        self._note_time(server, answer.headers.get(TIME_HEADER))
        return _read(server, operation, answer, reply)

    def _note_time(self, server: ServerAddress, told: str | None) -> None:
        try:
            ahead = float(told or "nan") - self._clock()
        except ValueError:
            return
        if not isfinite(ahead):
            return
        # Within a second it may be the way of the reply.
        known = self._ahead.pop(server.url, None)
        if abs(ahead) >= MIN_SKEW:
            self._ahead[server.url] = ahead
            if known is None:
                text = "the clock of %s differs from this machine's by %+.0f s"
                _log.warning(text, server.url, ahead)


def _read(
    server: ServerAddress, operation: str, answer: HttpAnswer, reply: type[R]
) -> R | Failure:
    if answer.status != HTTPStatus.OK:
        code, detail = _refusal(answer.content)
        return Failure(
            server=server,
            operation=operation,
            reason=FailureReason.REFUSED,
            status=answer.status,
            code=code,
            detail=detail,
        )
    try:
        return structure(decode(answer.content), reply)
    except (DecodeError, SchemaError) as error:
        return Failure(
            server=server,
            operation=operation,
            reason=FailureReason.INVALID_REPLY,
            status=answer.status,
            detail=str(error),
        )


def _refusal(content: bytes) -> tuple[str | None, str]:
    """Read the forms that refusals have (docs/reference/control-plane.md, section 2.15)."""
    try:
        body: Any = decode(content)
    except DecodeError:
        return None, preview(content) if content else ""
    error = body.get("error") if is_object(body) else None
    if is_object(error) and isinstance(error.get("code"), str):
        return error["code"], _text(error.get("detail", ""))
    return None, _text(body["detail"] if is_object(body) and "detail" in body else body)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else encode(value).decode()
