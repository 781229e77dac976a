"""HTTP to other servers: each request bounded, its answer read or its failure named.

The only module that knows the client library. Redirects are answers like any other,
because following one would carry the key elsewhere. Cookies travel with each request and
answer and are never kept here, because episodes share connections but not cookies. Of
the environment nothing is used but the proxy of a client that was given it.
"""

from __future__ import annotations

import asyncio

from base64 import b64encode
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import cached_property, lru_cache
from http import HTTPStatus
from io import BytesIO
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias

import attrs

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
)
from aiohttp.abc import AbstractResolver
from aiohttp.http_exceptions import ContentEncodingError
from yarl import URL

from ipistate.errors import IpiStateError


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from aiohttp import ClientResponse

Resolver: TypeAlias = AbstractResolver
"""Finds hosts."""

IDLE_SECONDS: Final = 4.0
"""How long a connection is kept; less than a server waits for the next request."""

MAX_HEADER_BYTES: Final = 100 * 2**10
"""Size of a header line from which on an answer is not read further."""

JSON: Final[Mapping[str, str]] = {"Content-Type": "application/json"}
"""The headers of a request with a JSON body."""


class HttpError(IpiStateError):
    """A request without an answer that can be used.

    ``unreachable``: there was no connection, so the server has not seen the request.
    ``broken``: no HTTP came, or the connection ended before the answer did.
    ``timed_out``: no whole answer in time. ``too_large``: its content has too many bytes.
    ``not_unpacked``: its content is not in the encoding that its headers name.
    """


@attrs.frozen(kw_only=True)
class Bounds:
    """How large an answer may be, and how long it may take."""

    size: int
    """Bytes of the content, unpacked."""
    total: float
    """Seconds from the request to the end of its answer."""
    connect: float | None = None
    """Seconds until there is a connection."""
    read: float | None = None
    """Seconds without a byte from the server."""

    @property
    def head(self) -> float | None:
        """Seconds until the answer begins; the library waits longer for a full pipe."""
        if self.connect is None or self.read is None:
            return None
        return self.connect + self.read


@attrs.frozen
class BearerKey:
    """A secret that a header carries and no text shows."""

    secret: str | None = attrs.field(repr=False)
    stand_in: str
    """What is shown in its place."""

    @property
    def headers(self) -> dict[str, str]:
        """The header that carries it; none if there is no secret."""
        secret = self.secret
        return {} if secret is None else {"Authorization": f"Bearer {secret}"}

    def hide(self, text: str) -> str:
        """Take the secret out of a text: some servers repeat what they refuse."""
        return text if self.secret is None else text.replace(self.secret, self.stand_in)

    def hide_in(self, content: bytes) -> bytes:
        """Take the secret out of bytes."""
        if self.secret is None:
            return content
        return content.replace(self.secret.encode(), self.stand_in.encode())


NO_KEY: Final = BearerKey(None, "")


class HttpAnswer(NamedTuple):
    """What a server has answered, of any status."""

    status: int
    headers: Mapping[str, str]
    """Their names are found in upper and lower case."""
    content: bytes
    """Unpacked."""
    cookies: Mapping[str, str]
    """Those that this answer sets."""


class HttpClient:
    """Connections to servers, as many as are used at once.

    An asynchronous context manager. It connects to nothing before the first request.

    Args:
        key: Sent with every request, and hidden in every error.
        idle_seconds: How long a connection is kept for the next request; 0 gives each
            request a connection of its own.
        pauses: Seconds before each further try to connect, while there is no connection.
        proxy: The URL of a proxy that all requests go through.
        resolver: Finds hosts instead of the system, for tests.
    """

    def __init__(
        self,
        *,
        key: BearerKey = NO_KEY,
        idle_seconds: float = IDLE_SECONDS,
        pauses: Sequence[float] = (),
        proxy: str | None = None,
        resolver: Resolver | None = None,
    ) -> None:
        self._key = key
        self._idle_seconds = idle_seconds
        self._pauses = pauses
        self._resolver = resolver
        # Apart, because errors name the URL of a proxy.
        self._proxy = URL(proxy).with_user(None) if proxy else None
        self._proxy_headers = _proxy_headers(URL(proxy)) if proxy else {}

    @cached_property
    def _session(self) -> ClientSession:
        # Not earlier: a session belongs to the event loop that runs.
        connector = TCPConnector(
            limit=0,
            resolver=self._resolver,
            use_dns_cache=False,
            force_close=not self._idle_seconds,
            keepalive_timeout=self._idle_seconds or None,
        )
        return ClientSession(
            connector=connector,
            cookie_jar=DummyCookieJar(),
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        if "_session" in vars(self):
            await self._session.close()

    async def send(  # noqa: PLR0913 - one request, all of it
        self,
        method: str,
        base: str,
        path: str,
        body: bytes | None = None,
        *,
        bounds: Bounds,
        headers: Mapping[str, str] = {},
        cookies: Mapping[str, str] = {},
    ) -> HttpAnswer:
        """Make one request and read its answer to the end.

        Args:
            method: What the request does.
            base: Where the server is; what ``base_url`` takes.
            path: Put below it as it is, so it has to be encoded.
            body: The content, if there is one.
            bounds: Of this request and its answer.
            headers: Besides the key's.
            cookies: Values as they came in answers.

        Raises:
            HttpError: There is no answer that can be used.
        """
        # With the request, since the library sends a session's headers to a proxy too.
        headers = {**self._key.headers, **headers}
        if cookies:
            pairs = "; ".join(f"{name}={value}" for name, value in cookies.items())
            headers["Cookie"] = pairs
        try:
            async with asyncio.timeout(bounds.total):
                url = URL(base_url(base) + path, encoded=True)
                for pause in self._pauses:
                    # Only what no server has seen is sent again.
                    with suppress(ClientConnectorError):
                        return await self._sent(method, url, body, bounds, headers)
                    await asyncio.sleep(pause)
                return await self._sent(method, url, body, bounds, headers)
        # All that a wrong address or a broken peer makes the library raise.
        except (ClientError, OSError, ValueError, OverflowError) as error:
            # Without the cause, which holds the headers and so the key.
            raise self._failure(error) from None

    async def lines(
        self,
        base: str,
        path: str,
        body: bytes,
        *,
        bounds: Bounds,
        headers: Mapping[str, str] = {},
    ) -> AsyncGenerator[bytes]:
        """Post a body, and read the answer line by line while it comes.

        Raises:
            HttpError: There is no answer of status 200, or it breaks off.
        """
        until = asyncio.get_running_loop().time() + bounds.total
        headers = {**self._key.headers, **headers}
        try:
            url = URL(base_url(base) + path, encoded=True)
            async with asyncio.timeout_at(until):
                response = await self._opened("POST", url, body, bounds, headers)
            async with response:
                if response.status != HTTPStatus.OK:
                    raise HttpError("broken", f"answered with {response.status}")
                async for line in _lines(response, bounds.size, until):
                    yield line
        except (ClientError, OSError, ValueError, OverflowError) as error:
            raise self._failure(error) from None

    async def _sent(
        self,
        method: str,
        url: URL,
        body: bytes | None,
        bounds: Bounds,
        headers: Mapping[str, str],
    ) -> HttpAnswer:
        async with await self._opened(method, url, body, bounds, headers) as response:
            content = await _content(response, bounds)
        cookies = dict(map(_cookie, response.headers.getall("Set-Cookie", ())))
        return HttpAnswer(response.status, response.headers, content, cookies)

    async def _opened(
        self,
        method: str,
        url: URL,
        body: bytes | None,
        bounds: Bounds,
        headers: Mapping[str, str],
    ) -> ClientResponse:
        # A proxy reads the headers of what it forwards, and its own where it tunnels.
        if url.scheme == "http":
            headers = {**headers, **self._proxy_headers}
        async with _within(bounds.head):
            return await self._session.request(
                method,
                url,
                # As a stream, since the library warns of long bytes.
                data=None if body is None else BytesIO(body),
                headers=headers,
                allow_redirects=False,
                proxy=self._proxy,
                proxy_headers=self._proxy_headers,
                timeout=_library_timeout(bounds),
            )

    def _failure(self, error: Exception) -> HttpError:
        match error:
            case TimeoutError():
                code = "timed_out"
            case ClientConnectorError():
                code = "unreachable"
            case ClientError() if _has_cause(error, ContentEncodingError):
                code = "not_unpacked"
            case _:
                code = "broken"
        line = " ".join(self._key.hide(str(error)).split())
        return HttpError(code, line or type(error).__name__)


def _within(seconds: float | None) -> AbstractAsyncContextManager[object]:
    # A limit that is none costs as much as one that is.
    return nullcontext() if seconds is None else asyncio.timeout(seconds)


@lru_cache(maxsize=16)
def _library_timeout(bounds: Bounds) -> ClientTimeout:
    return ClientTimeout(total=None, connect=bounds.connect, sock_read=bounds.read)


def _cookie(header: str) -> tuple[str, str]:
    # As browsers read it: up to the first semicolon, and the value as it is written.
    name, _, value = header.partition(";")[0].partition("=")
    return name.strip(), value.strip()


def _has_cause(error: BaseException, kind: type[BaseException]) -> bool:
    cause = error.__cause__
    return cause is not None and (isinstance(cause, kind) or _has_cause(cause, kind))


def _proxy_headers(proxy: URL) -> dict[str, str]:
    if proxy.user is None:
        return {}
    user = f"{proxy.user}:{proxy.password or ''}".encode()
    return {"Proxy-Authorization": f"Basic {b64encode(user).decode()}"}


async def _content(response: ClientResponse, bounds: Bounds) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        # The library's own timer stops when the peer's chunks make no sense, and then
        # the end that it waits for does not come.
        async with _within(bounds.read):
            part = await response.content.readany()
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > bounds.size:
            response.close()
            raise _too_large(bounds.size)


async def _lines(
    response: ClientResponse, most: int, until: float
) -> AsyncGenerator[bytes]:
    size = 0
    while True:
        async with asyncio.timeout_at(until):
            line = await response.content.readline()
        if not line:
            return
        size += len(line)
        if size > most:
            response.close()
            raise _too_large(most)
        yield line


def _too_large(most: int) -> HttpError:
    return HttpError("too_large", f"longer than {most:,} bytes")


@lru_cache(maxsize=64)
def base_url(url: str) -> str:
    """Return what paths are put below: encoded, without query and slash at its end.

    Raises:
        ValueError: It is no ``http(s)://host[:port][/path]``. It is not repeated, since
            it may hold a password.
    """
    problem = "a server's URL is http(s)://host[:port][/path]"
    try:
        found = URL(url)
    except ValueError:
        raise ValueError(problem) from None
    if (
        found.scheme not in {"http", "https"}
        or not found.host
        or "@" in found.authority
    ):
        raise ValueError(problem)
    return str(found.with_query(None).with_fragment(None)).rstrip("/")
