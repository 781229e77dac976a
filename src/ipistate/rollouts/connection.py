"""The server of sessions as a run sees it: where it is, and one client for each attempt."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Self, cast
from urllib.parse import quote

import attrs

from ipistate.clients import JSON, Bounds, HttpClient, HttpError, base_url
from ipistate.errors import IpiStateError, SchemaError, preview
from ipistate.protocol import prefixed


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ipistate.agents import AgentState
    from ipistate.clients import HttpAnswer
    from ipistate.protocol import EpisodeId

CALL_SECONDS: Final = 60.0
"""How long one answer may take."""

MAX_ANSWER_BYTES: Final = 64 * 2**20
"""Size from which on an answer is not read further."""


class ServerError(IpiStateError):
    """The server of sessions cannot do what it is asked; the episode is not scored.

    ``server_unreachable``: no connection, or it broke before the answer.
    ``server_timeout``: no answer in time. ``server_refused``: another status than 200, or
    an answer without end.
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
        try:
            object.__setattr__(self, "base", base_url(self.url))
        except ValueError as error:
            # It may hold a password.
            shown = None if "@" in self.url else preview(self.url)
            raise SchemaError("invalid_url", str(error), preview=shown) from None


class Channel:
    """Connections to a server, as many as are used at once; a run has one channel."""

    def __init__(self, server: Server) -> None:
        self._base = server.base
        self._client = HttpClient()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        cookies: Mapping[str, str] = {},
    ) -> HttpAnswer:
        """Make one request, its body JSON, and read its answer to the end.

        Raises:
            ServerError: There is no answer that can be used.
        """
        try:
            return await self._client.send(
                method,
                self._base,
                path,
                body,
                bounds=Bounds(size=MAX_ANSWER_BYTES, total=CALL_SECONDS),
                headers={} if body is None else JSON,
                cookies=cookies,
            )
        except HttpError as error:
            raise _failed(f"{method} {path}", error) from None


def _failed(request: str, error: HttpError) -> ServerError:
    match error.code:
        case "timed_out":
            told = f"no answer to {request} within {CALL_SECONDS:.0f} s"
            return ServerError("server_timeout", told)
        case "too_large":
            return ServerError("server_refused", f"{request}: {error.message}")
        case _:
            return ServerError("server_unreachable", f"{request}: {error.message}")


def cookies_of(state: AgentState | None) -> dict[str, str]:
    """Return the cookies that an attempt holds; before its seed it has none."""
    return {} if state is None else cast("dict[str, str]", {**state.cookies})


class EpisodeClient:
    """The requests of one attempt; its cookies are kept from answer to answer."""

    def __init__(
        self, channel: Channel, episode: EpisodeId, state: AgentState | None = None
    ) -> None:
        self._channel = channel
        self._prefix = prefixed("/", episode)
        self._cookies = cookies_of(state)

    @property
    def cookies(self) -> dict[str, str]:
        """The cookies that the server has set so far."""
        return dict(self._cookies)

    async def post(self, route: str, body: bytes) -> bytes:
        """Send a JSON body and return the answer's bytes.

        Raises:
            ServerError: There is no answer, or its status is not 200.
        """
        path = self._prefix + quote(route, safe="")
        answer = await self._channel.send("POST", path, body, self._cookies)
        self._cookies.update(answer.cookies)
        if answer.status != HTTPStatus.OK:
            shown = ascii(answer.content[:200].decode("utf-8", "replace"))
            message = f"{route} is answered {answer.status}"
            raise ServerError("server_refused", message, preview=shown)
        return answer.content


async def is_alive(server: Server) -> bool:
    """Ask a server for its health, over a connection of its own."""
    async with Channel(server) as channel:
        try:
            answer = await channel.send("GET", "/health")
        except ServerError:
            return False
    return answer.status == HTTPStatus.OK
