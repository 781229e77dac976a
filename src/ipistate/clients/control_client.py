"""HTTP to participants: one call at a time, bounded, its answer read or its failure named."""

from __future__ import annotations

import asyncio

from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import httpx

from ipistate.coordination import Failure, FailureReason
from ipistate.errors import DecodeError, SchemaError, preview
from ipistate.kernel import decode, encode, freeze, is_object, structure


if TYPE_CHECKING:
    from types import TracebackType

    from ipistate.coordination import ServerAddress

R = TypeVar("R")

PREFIX: Final = "/ng-control/v1/checkpoint"
MAX_REPLY_BYTES: Final = 64 * 2**20
"""Size from which on an answer is not read further."""

TRIES: Final = 3
"""How often a connection is tried before a server counts as unreachable."""

# Everything that a wrong address or a broken peer makes the library raise.
_UNREACHABLE: Final = (
    httpx.HTTPError,
    httpx.InvalidURL,
    OSError,
    ValueError,
    OverflowError,
)
_OK: Final = 200
_JSON: Final = {"content-type": "application/json"}


def _check_token(token: str) -> None:
    if not (token.isascii() and token.isprintable() and token.strip() == token != ""):
        raise ValueError("a token is printable ASCII text and not empty")


class ControlClient:
    """The control plane's calls, with the bearer token of a deployment.

    An asynchronous context manager. Each call has a connection of its own, so that
    none fails because an idle one was closed meanwhile. Proxies and other settings of
    the process's environment are ignored, redirects are not followed.

    Args:
        token: The deployment's control token.
        transport: Sends the requests instead of the network, for tests.

    Raises:
        ValueError: The token cannot stand in a header.
    """

    def __init__(
        self, token: str, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        _check_token(token)
        self._client = httpx.AsyncClient(
            transport=transport or _network(),
            headers={"authorization": f"Bearer {token}"},
            timeout=None,  # noqa: S113 - each call has a bound for all of it
            trust_env=False,
            # What one peer sets is no business of the others.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def status(
        self, server: ServerAddress, reply: type[R], seconds: float
    ) -> R | Failure:
        """Ask for the status, which may take so many seconds, and read it."""
        return await self._called(server, "status", "GET", None, reply, seconds)

    async def operate(
        self,
        server: ServerAddress,
        operation: str,
        body: object,
        reply: type[R],
        seconds: float,
    ) -> R | Failure:
        """Make a call that may take so many seconds in all, and read its reply.

        It may be repeated: the protocol's operations have the effect of one call.
        """
        content = encode(freeze(body))
        return await self._called(server, operation, "POST", content, reply, seconds)

    async def _called(  # noqa: PLR0913, PLR0917 - one call, all of it
        self,
        server: ServerAddress,
        operation: str,
        method: str,
        content: bytes | None,
        reply: type[R],
        seconds: float,
    ) -> R | Failure:
        try:
            async with asyncio.timeout(seconds):
                status, answer = await self._sent(
                    method, _url(server, operation), content
                )
        except TimeoutError:
            reason, told = FailureReason.TIMED_OUT, f"no answer within {seconds:.1f} s"
        except _TooLongError:
            reason, told = (
                FailureReason.INVALID_REPLY,
                f"longer than {MAX_REPLY_BYTES:,} bytes",
            )
        except _UNREACHABLE as error:
            reason = FailureReason.UNREACHABLE
            told = str(error) or type(error).__name__
        else:
            return _read(server, operation, status, answer, reply)
        return Failure(server=server, operation=operation, reason=reason, detail=told)

    async def _sent(
        self, method: str, url: str, content: bytes | None
    ) -> tuple[int, bytes]:
        headers = None if content is None else _JSON
        answer = bytearray()
        async with self._client.stream(
            method, url, content=content, headers=headers
        ) as response:
            async for part in response.aiter_bytes():
                answer += part
                if len(answer) > MAX_REPLY_BYTES:
                    raise _TooLongError
        return response.status_code, bytes(answer)


class _TooLongError(Exception):
    """An answer that no participant has a reason to give."""


def _network() -> httpx.AsyncHTTPTransport:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx.AsyncHTTPTransport(retries=TRIES - 1, limits=limits, trust_env=False)


def _url(server: ServerAddress, operation: str) -> str:
    return f"{server.url}{PREFIX}/{operation}"


def _read(
    server: ServerAddress, operation: str, status: int, content: bytes, reply: type[R]
) -> R | Failure:
    if status != _OK:
        code, detail = _refusal(content)
        return Failure(
            server=server,
            operation=operation,
            reason=FailureReason.REFUSED,
            status=status,
            code=code,
            detail=detail,
        )
    try:
        return structure(decode(content), reply)
    except (DecodeError, SchemaError) as error:
        return Failure(
            server=server,
            operation=operation,
            reason=FailureReason.INVALID_REPLY,
            status=status,
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
