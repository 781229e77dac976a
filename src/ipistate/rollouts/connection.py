"""HTTP to the server of sessions: a kept connection and the cookies of one episode.

``h11`` speaks the protocol, as it does for ``httpx`` and ``uvicorn``; what a client for
everything does around it costs more than the server's own work.
"""

from __future__ import annotations

import asyncio

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, urlsplit

import attrs
import h11

from ipistate.errors import IpiStateError, SchemaError, preview


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ipistate.checkpoint.episode import EpisodeId

CALL_SECONDS: Final = 60.0
"""How long one answer may take."""

_OK: Final = 200
_PORTS: Final = {"http": 80, "https": 443}
_READ: Final = 2**18
_JSON: Final = (b"content-type", b"application/json")
_BROKEN: Final = (OSError, EOFError, h11.ProtocolError)


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
    secure: bool = attrs.field(init=False)
    host: str = attrs.field(init=False)
    port: int = attrs.field(init=False)
    path: str = attrs.field(init=False)
    """What all paths begin with."""

    def __attrs_post_init__(self) -> None:
        """Read the URL."""
        try:
            parts = urlsplit(self.url)
            port = parts.port
        except ValueError:
            raise self._refusal() from None
        if parts.scheme not in _PORTS or not parts.hostname or not self.url.isascii():
            raise self._refusal()
        object.__setattr__(self, "secure", parts.scheme == "https")
        object.__setattr__(self, "host", parts.hostname)
        object.__setattr__(self, "port", port or _PORTS[parts.scheme])
        object.__setattr__(self, "path", parts.path.rstrip("/"))

    def _refusal(self) -> SchemaError:
        message = "a server's URL is http(s)://host[:port][/path]"
        return SchemaError("invalid_url", message, preview=preview(self.url))

    @property
    def authority(self) -> bytes:
        """What a request says about where it goes."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"{name}:{self.port}".encode("ascii")


class Answer(NamedTuple):
    """What a server has answered."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    content: bytes


class _Stream:
    """An open connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._protocol = h11.Connection(h11.CLIENT)

    @property
    def is_usable(self) -> bool:
        """Whether another request can be sent; a server may close what nobody uses."""
        idle = self._protocol.our_state is h11.IDLE
        return idle and not self._reader.at_eof() and not self._writer.is_closing()

    async def exchange(self, request: h11.Request, body: bytes) -> Answer:
        send = self._protocol.send
        parts = (send(request), send(h11.Data(data=body)), send(h11.EndOfMessage()))
        self._writer.write(b"".join(part for part in parts if part))
        await self._writer.drain()
        status, headers, content = 0, list[tuple[bytes, bytes]](), list[bytes]()
        while not isinstance(event := await self._event(), h11.EndOfMessage):
            match event:
                case h11.Response():
                    status, headers = event.status_code, list(event.headers)
                case h11.Data():
                    content.append(bytes(event.data))
                case h11.ConnectionClosed():
                    raise EOFError("the connection was closed before the answer")
                case _:
                    continue
        if self._protocol.their_state is h11.DONE:
            self._protocol.start_next_cycle()
        return Answer(status, headers, b"".join(content))

    async def _event(self) -> object:
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            self._protocol.receive_data(await self._reader.read(_READ))
        return event

    async def close(self) -> None:
        self._writer.close()
        with suppress(*_BROKEN):
            await self._writer.wait_closed()


class Channel:
    """One connection, opened when it is needed; a worker has one for all its episodes."""

    def __init__(self, server: Server) -> None:
        """Connect to nothing yet."""
        self._server = server
        self._host = (b"host", server.authority)
        self._open: _Stream | None = None

    async def close(self) -> None:
        """Close the connection."""
        stream, self._open = self._open, None
        if stream is not None:
            await stream.close()

    async def send(
        self,
        method: str,
        path: str,
        body: bytes,
        headers: Sequence[tuple[bytes, bytes]],
    ) -> Answer:
        """Make one request and read its answer to the end.

        Raises:
            ServerError: ``server_unreachable`` or ``server_timeout``.
        """
        length = (b"content-length", b"%d" % len(body))
        request = h11.Request(
            method=method,
            target=self._server.path + path,
            headers=[self._host, length, *headers],
        )
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await (await self._stream()).exchange(request, body)
        except TimeoutError as error:
            await self.close()
            told = f"no answer to {method} {path} within {CALL_SECONDS:.0f} s"
            raise ServerError("server_timeout", told) from error
        except _BROKEN as error:
            await self.close()
            told = f"{method} {path}: {str(error) or type(error).__name__}"
            raise ServerError("server_unreachable", told) from error
        except BaseException:
            # A request that was cut short leaves a connection of no use.
            await self.close()
            raise

    async def _stream(self) -> _Stream:
        if self._open is not None and not self._open.is_usable:
            await self.close()
        if self._open is None:
            at = self._server
            secure = True if at.secure else None
            pair = await asyncio.open_connection(at.host, at.port, ssl=secure)
            self._open = _Stream(*pair)
        return self._open


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

    def _take(self, answer: Answer) -> None:
        for name, value in answer.headers:
            if name.lower() == b"set-cookie":
                pair = value.decode("latin-1").partition(";")[0]
                key, _, text = pair.partition("=")
                self._cookies[key.strip()] = text.strip()


def _refused(route: str, answer: Answer) -> ServerError:
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
