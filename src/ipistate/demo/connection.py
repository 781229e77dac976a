"""HTTP to one server: a client for each episode, over connections that all share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

import httpx

from ipistate.errors import IpiStateError
from ipistate.kernel import decode


if TYPE_CHECKING:
    from types import TracebackType

    from ipistate.protocol import EpisodeId

CALL_SECONDS: Final = 30.0

_OK: Final = 200

_JSON: Final = {"content-type": "application/json"}


class UnexpectedReplyError(IpiStateError):
    """A server answered something else than 200."""

    @classmethod
    def of(cls, response: httpx.Response) -> Self:
        """Describe a response by its request, its status and its beginning."""
        asked = f"{response.request.method} {response.request.url.path}"
        message = f"{asked} answered {response.status_code}"
        return cls("unexpected_reply", message, preview=response.text[:200])


def _content(response: httpx.Response) -> bytes:
    if response.status_code != _OK:
        raise UnexpectedReplyError.of(response)
    return response.content


class Connection:
    """Open connections to one server process; episodes share them, cookies they do not.

    Args:
        url: Where the server listens.
        limit: Connections at a time.
    """

    def __init__(self, url: str, limit: int) -> None:
        self._url = url
        limits = httpx.Limits(max_connections=limit, max_keepalive_connections=limit)
        self._transport = httpx.AsyncHTTPTransport(limits=limits)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._transport.aclose()

    def episode(
        self, episode: EpisodeId | None, cookies: httpx.Cookies | None = None
    ) -> DemoClient:
        """Speak for one attempt of a rollout, with the cookies it holds so far.

        Without an episode the cookies alone say whose calls these are.
        """
        prefix = "" if episode is None else f"/ng-rollout/{episode.capture_key}"
        client = httpx.AsyncClient(
            base_url=self._url,
            transport=self._transport,
            cookies=cookies,
            timeout=CALL_SECONDS,
            trust_env=False,
        )
        return DemoClient(client, prefix)


class DemoClient:
    """The calls of one episode; its cookie is kept from reply to reply."""

    def __init__(self, client: httpx.AsyncClient, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    @property
    def cookies(self) -> httpx.Cookies:
        """The cookies that the server has set so far."""
        return self._client.cookies

    async def post(self, route: str, body: bytes) -> bytes:
        """Send a JSON body and return the reply's bytes.

        Raises:
            UnexpectedReplyError: The status is not 200.
            httpx.HTTPError: The server cannot be reached, or takes too long.
        """
        return _content(await self._posted(route, body))

    async def refusal(self, route: str, body: bytes) -> str | None:
        """Send a JSON body and return the code that it is refused with, if it is.

        Raises:
            httpx.HTTPError: The server cannot be reached, or takes too long.
        """
        response = await self._posted(route, body)
        if response.status_code == _OK:
            return None
        document: Any = decode(response.content)
        error = document.get("error", {})
        return str(error.get("code", f"HTTP {response.status_code}"))

    async def _posted(self, route: str, body: bytes) -> httpx.Response:
        path = f"{self._prefix}/{quote(route, safe='')}"
        return await self._client.post(path, content=body, headers=_JSON)
