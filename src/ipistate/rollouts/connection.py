"""HTTP to the server of sessions: kept connections, and the cookies of one episode."""

from __future__ import annotations

from http import HTTPStatus
from io import BytesIO
from typing import TYPE_CHECKING, Final, NamedTuple, Self
from urllib.parse import quote

import attrs

from aiohttp import (
    ClientError,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
)
from yarl import URL

from ipistate.errors import IpiStateError, SchemaError, preview


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ipistate.protocol import EpisodeId

CALL_SECONDS: Final = 60.0
"""How long one answer may take."""

_IDLE_SECONDS: Final = 4.0
"""Less than a server waits for the next request, so that it never hangs up on one."""


class ServerError(IpiStateError):
    """The server of sessions cannot do what it is asked; the episode is not scored.

    ``server_unreachable``: no connection, or it broke before the answer.
    ``server_timeout``: no answer in time. ``server_refused``: another status than 200.
    """


@attrs.frozen
class Server:
    """Where a server of sessions listens.

    Raises:
        SchemaError: ``invalid_url``.
    """

    url: str
    base: str = attrs.field(init=False)
    """What the URL of every request begins with."""

    def __attrs_post_init__(self) -> None:
        """Read the URL."""
        try:
            url = URL(self.url)
        except ValueError:
            raise self._refusal() from None
        if url.scheme not in {"http", "https"} or not url.host or "@" in url.authority:
            raise self._refusal()
        base = str(url.with_query(None).with_fragment(None))
        object.__setattr__(self, "base", base.rstrip("/"))

    def _refusal(self) -> SchemaError:
        message = "a server's URL is http(s)://host[:port][/path]"
        # A password is for nobody to read.
        shown = None if "@" in self.url else preview(self.url)
        return SchemaError("invalid_url", message, preview=shown)


class ServerAnswer(NamedTuple):
    """What a server has answered."""

    status: int
    content: bytes
    cookies: Mapping[str, str]


class Channel:
    """Connections to a server, as many as are used at once; a run has one channel."""

    def __init__(self, server: Server) -> None:
        """Connect to nothing yet."""
        self._base = server.base
        self._session = ClientSession(
            connector=TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS),
            cookie_jar=DummyCookieJar(),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] = {},
    ) -> ServerAnswer:
        """Make one request and read its answer to the end.

        Raises:
            ServerError: ``server_unreachable`` or ``server_timeout``.
        """
        try:
            async with self._session.request(
                method,
                URL(self._base + path, encoded=True),
                data=BytesIO(body),
                headers=headers,
                allow_redirects=False,
                timeout=ClientTimeout(total=CALL_SECONDS),
            ) as answer:
                content = await answer.read()
        except TimeoutError as error:
            told = f"no answer to {method} {path} within {CALL_SECONDS:.0f} s"
            raise ServerError("server_timeout", told) from error
        except (ClientError, OSError, UnicodeError) as error:  # the last: a host's name
            told = " ".join(str(error).split()) or type(error).__name__
            told = f"{method} {path}: {told}"
            raise ServerError("server_unreachable", told) from error
        cookies = {name: one.coded_value for name, one in answer.cookies.items()}
        return ServerAnswer(answer.status, content, cookies)


class EpisodeClient:
    """The requests of one attempt; its cookies are kept from answer to answer."""

    def __init__(
        self, channel: Channel, episode: EpisodeId, cookies: Mapping[str, str] = {}
    ) -> None:
        """Speak with the cookies that are held so far."""
        self._channel = channel
        self._prefix = f"/ng-rollout/{episode.capture_key}/"
        self._cookies = dict(cookies)

    @property
    def cookies(self) -> dict[str, str]:
        """The cookies that the server has set so far."""
        return dict(self._cookies)

    async def post(self, route: str, body: bytes) -> bytes:
        """Send a JSON body and return the answer's bytes.

        Raises:
            ServerError: There is no answer, or its status is not 200.
        """
        headers = {"Content-Type": "application/json"}
        if self._cookies:
            pairs = (f"{name}={value}" for name, value in self._cookies.items())
            headers["Cookie"] = "; ".join(pairs)
        path = self._prefix + quote(route, safe="")
        answer = await self._channel.send("POST", path, body, headers)
        self._cookies.update(answer.cookies)
        if answer.status != HTTPStatus.OK:
            raise _refused(route, answer)
        return answer.content


def _refused(route: str, answer: ServerAnswer) -> ServerError:
    shown = ascii(answer.content[:200].decode("utf-8", "replace"))
    message = f"{route} is answered {answer.status}"
    return ServerError("server_refused", message, preview=shown)


async def is_alive(server: Server) -> bool:
    """Ask a server for its health, over a connection of its own."""
    async with Channel(server) as channel:
        try:
            answer = await channel.send("GET", "/health")
        except ServerError:
            return False
    return answer.status == HTTPStatus.OK
