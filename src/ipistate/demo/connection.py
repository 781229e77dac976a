"""HTTP to one server: a data client for each episode, and the control plane's calls."""

from __future__ import annotations

import time

from typing import TYPE_CHECKING, Any, Final, Self, cast
from urllib.parse import quote

import attrs
import httpx

from ipistate.errors import IpiStateError


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

    from ipistate.checkpoint.episode import EpisodeId

CONTROL: Final = "/ng-control/v1/checkpoint"
DEADLINE_SECONDS: Final = 30.0
GRACE_SECONDS: Final = 5.0

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
        token: The control plane's bearer token.
        limit: Connections at a time.
    """

    def __init__(self, url: str, token: str, limit: int) -> None:
        self._url = url
        self._token = token
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

    def _client(
        self, cookies: httpx.Cookies | None, timeout: float | None
    ) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self._url,
            transport=self._transport,
            cookies=cookies,
            timeout=timeout,
            trust_env=False,
        )

    def episode(
        self, episode: EpisodeId, cookies: httpx.Cookies | None = None
    ) -> EpisodeClient:
        """Speak for one attempt of a rollout, with the cookies it holds so far."""
        prefix = f"/ng-rollout/{episode.capture_key}"
        return EpisodeClient(self._client(cookies, DEADLINE_SECONDS), prefix)

    async def status(self) -> Mapping[str, Any]:
        """Ask for the participant's status."""
        client = self._client(None, DEADLINE_SECONDS)
        response = await client.get(f"{CONTROL}/status", headers=self._authorization)
        _content(response)
        return cast("Mapping[str, Any]", response.json())

    async def prepare(self, checkpoint_id: str) -> Mapping[str, Any]:
        """Close admission and wait for the requests in flight."""
        return await self._operate("prepare", checkpoint_id)

    async def commit(
        self, checkpoint_id: str, directory: Path, episodes: Iterable[EpisodeId]
    ) -> Mapping[str, Any]:
        """Write the sessions of these episodes to a directory."""
        return await self._operate(
            "commit",
            checkpoint_id,
            checkpoint_dir=str(directory),
            episode_ids=[attrs.asdict(episode) for episode in episodes],
        )

    async def restore(
        self, checkpoint_id: str, directory: Path, episodes: Iterable[EpisodeId]
    ) -> Mapping[str, Any]:
        """Install the sessions of these episodes from a directory."""
        return await self._operate(
            "restore",
            checkpoint_id,
            checkpoint_dir=str(directory),
            episode_ids=[attrs.asdict(episode) for episode in episodes],
        )

    async def resume(self, checkpoint_id: str) -> Mapping[str, Any]:
        """Open admission again."""
        return await self._operate("resume", checkpoint_id)

    @property
    def _authorization(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._token}"}

    async def _operate(
        self, operation: str, checkpoint_id: str, **members: object
    ) -> Mapping[str, Any]:
        deadline = time.time() + DEADLINE_SECONDS
        body = {"checkpoint_id": checkpoint_id, "deadline_ts": deadline, **members}
        client = self._client(None, DEADLINE_SECONDS + GRACE_SECONDS)
        response = await client.post(
            f"{CONTROL}/{operation}", json=body, headers=self._authorization
        )
        _content(response)
        return cast("Mapping[str, Any]", response.json())


class EpisodeClient:
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
        path = f"{self._prefix}/{quote(route, safe='')}"
        return _content(await self._client.post(path, content=body, headers=_JSON))
