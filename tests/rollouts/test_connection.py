"""Requests to a server: kept connections, cookies, and every way in which they fail."""

from __future__ import annotations

import asyncio
import re

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from ipistate.errors import SchemaError
from ipistate.protocol.episode import EpisodeId
from ipistate.rollouts import connection
from ipistate.rollouts.connection import (
    Channel,
    EpisodeClient,
    Server,
    ServerError,
    is_alive,
)


EPISODE = EpisodeId("r-1", 2)


def answer(
    body: bytes = b"{}", status: bytes = b"200 OK", headers: bytes = b""
) -> bytes:
    """Write an answer."""
    head = b"HTTP/1.1 %b\r\ncontent-length: %d\r\n" % (status, len(body))
    return head + headers + b"\r\n" + body


@attrs.define
class Listening:
    """A server that answers in order, and what it has heard.

    Args:
        answers: Bytes for each request; None says nothing and hangs up.
        close: Hang up after every answer without having said so.
    """

    answers: list[Any]
    close: bool = False
    seen: list[Any] = attrs.field(factory=list)
    heard: asyncio.Event = attrs.field(factory=asyncio.Event)
    at: Server | None = None

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer one connection."""
        try:
            while (head := await reader.readuntil(b"\r\n\r\n")) and self.answers:
                told = re.search(rb"content-length: (\d+)", head.lower())
                body = await reader.readexactly(int(told[1]) if told else 0)
                self.seen.append((head, body))
                self.heard.set()
                reply = self.answers.pop(0)
                if reply is None:
                    break
                writer.write(reply)
                await writer.drain()
                if self.close:
                    break
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


def talk(
    work: Callable[..., Any], *answers: bytes | None, close: bool = False
) -> tuple[Any, list[tuple[bytes, bytes]]]:
    """Run work with a client of a server that answers in order; return what it saw."""
    listening = Listening(list(answers), close)

    async def both() -> Any:
        server = await asyncio.start_server(
            listening.serve, "127.0.0.1", 0, limit=2**23
        )
        port = server.sockets[0].getsockname()[1]
        listening.at = Server(f"http://127.0.0.1:{port}/below/")
        async with server, Channel(listening.at) as channel:
            return await work(EpisodeClient(channel, EPISODE), listening)

    return asyncio.run(both()), listening.seen


def test_requests_have_the_prefix_and_the_cookies() -> None:
    """Each request names its episode and brings the cookies that were set so far."""

    async def work(client: EpisodeClient, _: Listening) -> list[bytes]:
        return [await client.post("a b", b"1"), await client.post("c", b"2")]

    cookies = b"set-cookie: one=1; path=/\r\nSet-Cookie: two=b=c\r\n"
    found, seen = talk(work, answer(b"x", headers=cookies), answer(b"y"))

    assert [b"x", b"y"] == found
    assert [b"1", b"2"] == [body for _, body in seen]
    assert seen[0][0].startswith(b"POST /below/ng-rollout/r-1-a2/a%20b HTTP/1.1\r\n")
    assert b"cookie" not in seen[0][0].lower()
    assert b"cookie: one=1; two=b=c\r\n" in seen[1][0].lower()


def test_cookies_stay_with_their_episode() -> None:
    """Episodes that share connections do not share cookies."""

    async def work(
        client: EpisodeClient, listening: Listening
    ) -> tuple[dict[str, str], dict[str, Any]]:
        await client.post("a", b"")
        other = EpisodeClient(client._channel, EpisodeId("r-2", 0))
        await other.post("b", b"")
        return client.cookies, other.cookies

    cookies = b"set-cookie: one=1\r\n"
    found, seen = talk(work, answer(headers=cookies), answer())

    assert ({"one": "1"}, {}) == found
    assert b"cookie" not in seen[1][0].lower()


def test_a_connection_that_was_closed_is_opened_again() -> None:
    """A server that hangs up between two requests is only connected to once more."""

    async def work(client: EpisodeClient, listening: Listening) -> tuple[bytes, bytes]:
        first = await client.post("a", b"")
        # While another one is asked and answers, the end of the connection comes.
        assert listening.at is not None
        assert await is_alive(listening.at)
        return first, await client.post("b", b"")

    found, seen = talk(work, answer(b"1"), answer(), answer(b"2"), close=True)

    assert (b"1", b"2") == found
    assert 3 == len(seen)


def test_large_bodies_are_sent_whole() -> None:
    """A body of some megabytes arrives as it is."""
    body = b"0123456789abcdef" * 2**18

    async def work(client: EpisodeClient, _: Listening) -> bytes:
        return await client.post("verify", body)

    found, seen = talk(work, answer(body))

    assert body == found == seen[0][1]


def test_no_proxy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment says about proxies is for others."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    async def work(client: EpisodeClient, _: Listening) -> bytes:
        return await client.post("tool", b"")

    found, _ = talk(work, answer(b"x"))

    assert b"x" == found


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (None, "server_unreachable"),
        (answer(b"x" * 50)[:-10], "server_unreachable"),
        (b"\x1b[31m nonsense\r\n\r\n", "server_unreachable"),
        (answer(b"no \x1b[31m", status=b"500 Oh"), "server_refused"),
        (answer(status=b"302 Found", headers=b"location: /x\r\n"), "server_refused"),
    ],
)
def test_bad_answers_have_a_code(reply: bytes | None, code: str) -> None:
    """An answer that is cut, is no HTTP, or has another status is an error with a code."""

    async def work(client: EpisodeClient, _: Listening) -> ServerError:
        with pytest.raises(ServerError) as caught:
            await client.post("tool", b"")
        return caught.value

    error, seen = talk(work, reply, close=True)

    assert code == error.code
    assert "\x1b" not in str(error)
    assert 1 == len(seen)


def test_silence_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer is given up, and its connection with it."""

    async def work(client: EpisodeClient, _: Listening) -> tuple[str, bytes]:
        with monkeypatch.context() as patched:
            patched.setattr(connection, "CALL_SECONDS", 0.05)
            with pytest.raises(ServerError) as caught:
                await client.post("tool", b"")
        return caught.value.code, await client.post("tool", b"")

    found, _ = talk(work, b"", answer(b"ok"))

    assert ("server_timeout", b"ok") == found


def test_a_cancelled_request_leaves_nothing_behind() -> None:
    """The answer to a request that was cancelled is not taken for the next one's."""

    async def work(client: EpisodeClient, listening: Listening) -> tuple[bool, bytes]:
        task = asyncio.create_task(client.post("a", b""))
        await listening.heard.wait()
        task.cancel()
        await asyncio.wait({task})
        return task.cancelled(), await client.post("b", b"")

    found, seen = talk(work, answer(b"late")[:-1], answer(b"2"))

    assert (True, b"2") == found
    assert 2 == len(seen)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", f"http://{'h' * 70}"])
def test_nobody_listens(url: str) -> None:
    """A port without a server, and a host that cannot be, are unreachable and not alive."""

    async def work() -> tuple[str, bool]:
        async with Channel(Server(url)) as channel:
            with pytest.raises(ServerError) as caught:
                await channel.send("GET", "/health")
        return caught.value.code, await is_alive(Server(url))

    assert ("server_unreachable", False) == asyncio.run(work())


@pytest.mark.parametrize(
    "url", ["", "nonsense", "ftp://h", "http://", "http://h:x", "http://h:99999"]
)
def test_what_is_no_url(url: str) -> None:
    """A URL that nothing can be asked at is refused before anything is."""
    with pytest.raises(SchemaError) as caught:
        Server(url)

    assert "invalid_url" == caught.value.code


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    """It would stand in every message that names the server."""
    with pytest.raises(SchemaError) as caught:
        Server("http://me:hunter2@h:80")

    assert "invalid_url" == caught.value.code
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://h", "http://h"),
        ("https://h/p/?q#f", "https://h/p"),
        ("http://[::1]:8000/", "http://[::1]:8000"),
    ],
)
def test_paths_are_put_below_a_url(url: str, base: str) -> None:
    """What a path is put below has no slash at its end, no query and no fragment."""
    assert base == Server(url).base


def test_an_answer_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no reply has a reason to be is not read to its end."""
    monkeypatch.setattr(connection, "MAX_ANSWER_BYTES", 100)

    async def work(client: EpisodeClient, _: Listening) -> ServerError:
        with pytest.raises(ServerError) as caught:
            await client.post("tool", b"")
        return caught.value

    error, _ = talk(work, answer(b"x" * 101))

    assert "server_refused" == error.code
    assert "longer than 100 bytes" in error.message
