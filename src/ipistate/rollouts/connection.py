"""HTTP to the server of sessions: a kept connection and the cookies of one episode.

The connections are ``httpcore``'s own: a pool that all episodes share costs several times
what a request does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import attrs
import httpcore

from ipistate.errors import IpiStateError


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ipistate.checkpoint.episode import EpisodeId

CALL_SECONDS: Final = 60.0
"""How long one answer may take, from byte to byte."""

_OK: Final = 200
_JSON: Final = (b"content-type", b"application/json")
_TIMEOUTS: Final = dict.fromkeys(("connect", "read", "write", "pool"), CALL_SECONDS)
_BROKEN: Final = (httpcore.NetworkError, httpcore.ProtocolError, OSError)


class ServerError(IpiStateError):
    """The server of sessions cannot do what it is asked; the episode is not scored.

    ``server_unreachable``: no connection, or it broke before the answer.
    ``server_timeout``: no answer in time. ``server_refused``: another status than 200.
    """


@attrs.frozen
class Server:
    """Where a server of sessions listens."""

    url: str
    _at: httpcore.URL = attrs.field(
        init=False,
        repr=False,
        default=attrs.Factory(lambda self: httpcore.URL(self.url), takes_self=True),
    )

    def origin(self) -> httpcore.Origin:
        """Return what a connection is opened to."""
        return self._at.origin

    def target(self, path: str) -> httpcore.URL:
        """Return the URL of a path below the server's own."""
        at = self._at
        below = at.target.rstrip(b"/") + path.encode("ascii")
        return httpcore.URL(scheme=at.scheme, host=at.host, port=at.port, target=below)


class Channel:
    """One connection, opened when it is needed; a worker has one for all its episodes."""

    def __init__(self, server: Server) -> None:
        """Connect to nothing yet."""
        self._server = server
        self._open: httpcore.AsyncHTTPConnection | None = None

    async def close(self) -> None:
        """Close the connection."""
        if self._open is not None:
            await self._open.aclose()
            self._open = None

    async def send(
        self, method: str, path: str, body: bytes, headers: list[tuple[bytes, bytes]]
    ) -> httpcore.Response:
        """Make one request and read its response to the end.

        Raises:
            ServerError: ``server_unreachable`` or ``server_timeout``.
        """
        connection = await self._connection()
        try:
            return await connection.request(
                method,
                self._server.target(path),
                content=body,
                headers=headers,
                extensions={"timeout": _TIMEOUTS},
            )
        except httpcore.TimeoutException as error:
            await self.close()
            told = f"no answer to {method} {path} in time"
            raise ServerError("server_timeout", told) from error
        except _BROKEN as error:
            await self.close()
            told = f"{method} {path}: {str(error) or type(error).__name__}"
            raise ServerError("server_unreachable", told) from error
        except BaseException:
            # A request that was cut short leaves a connection of no use.
            await self.close()
            raise

    async def _connection(self) -> httpcore.AsyncHTTPConnection:
        held = self._open
        # A server may have closed a connection that nobody used for some seconds.
        if held is not None and not (held.is_available() and not held.has_expired()):
            await self.close()
            held = None
        if held is None:
            held = httpcore.AsyncHTTPConnection(self._server.origin(), retries=2)
            self._open = held
        return held


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
        headers: list[tuple[bytes, bytes]] = [_JSON]
        if self._cookies:
            pairs = "; ".join(
                f"{name}={value}" for name, value in self._cookies.items()
            )
            headers.append((b"cookie", pairs.encode("latin-1")))
        path = self._prefix + quote(route, safe="")
        answer = await self._channel.send("POST", path, body, headers)
        self._take(answer)
        if answer.status != _OK:
            raise _refused(route, answer)
        return answer.content

    def _take(self, answer: httpcore.Response) -> None:
        for name, value in answer.headers:
            if name.lower() == b"set-cookie":
                pair = value.decode("latin-1").partition(";")[0]
                key, _, text = pair.partition("=")
                self._cookies[key.strip()] = text.strip()


def _refused(route: str, answer: httpcore.Response) -> ServerError:
    shown = ascii(answer.content[:200].decode("utf-8", "replace"))
    message = f"{route} is answered {answer.status}"
    return ServerError("server_refused", message, preview=shown)


async def is_alive(server: Server) -> bool:
    """Ask a server for its health, over a connection of its own."""
    channel = Channel(server)
    try:
        answer = await channel.send("GET", "/health", b"", [])
    except ServerError:
        return False
    finally:
        await channel.close()
    return answer.status == _OK
