"""Requests to a server: kept connections, cookies, and every way in which they fail."""

from __future__ import annotations

import asyncio

import pytest

from ipistate.checkpoint.episode import EpisodeId
from ipistate.errors import SchemaError
from ipistate.rollouts import connection
from ipistate.rollouts.connection import (
    Channel,
    EpisodeClient,
    Server,
    ServerError,
    is_alive,
)


EPISODE = EpisodeId("r-1", 2)


def answer(body=b"{}", status=b"200 OK", headers=b""):
    """Write an answer."""
    head = b"HTTP/1.1 %b\r\ncontent-length: %d\r\n" % (status, len(body))
    return head + headers + b"\r\n" + body


def talk(work, *answers, close=False):
    """Run work with a client of a server that answers in order; return what it saw.

    Args:
        work: Gets a client and the server's URL.
        answers: Bytes for each request; None says nothing and hangs up.
        close: Hang up after every answer without having said so.
    """
    seen, left = [], list(answers)

    async def serve(reader, writer):
        try:
            while (head := await reader.readuntil(b"\r\n\r\n")) and left:
                length = int(head.lower().split(b"content-length: ")[1].split()[0])
                seen.append((head, await reader.readexactly(length)))
                reply = left.pop(0)
                if reply is None:
                    break
                writer.write(reply)
                await writer.drain()
                if close:
                    break
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    async def both():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            channel = Channel(Server(f"http://127.0.0.1:{port}/below/"))
            try:
                return await work(EpisodeClient(channel, EPISODE), channel)
            finally:
                await channel.close()

    return asyncio.run(both()), seen


def test_requests_have_the_prefix_and_the_cookies():
    """Each request names its episode and brings the cookies that were set so far."""

    async def work(client, _):
        return [await client.post("a b", b"1"), await client.post("c", b"2")]

    cookies = b"set-cookie: one=1; path=/\r\nSet-Cookie: two=b=c\r\n"
    found, seen = talk(work, answer(b"x", headers=cookies), answer(b"y"))

    assert [b"x", b"y"] == found
    assert [b"1", b"2"] == [body for _, body in seen]
    assert seen[0][0].startswith(b"POST /below/ng-rollout/r-1-a2/a%20b HTTP/1.1\r\n")
    assert b"cookie" not in seen[0][0].lower()
    assert b"cookie: one=1; two=b=c\r\n" in seen[1][0].lower()


def test_a_connection_that_was_closed_is_opened_again():
    """A server that hangs up between two requests is only connected to once more."""

    async def work(client, _):
        first = await client.post("a", b"")
        await asyncio.sleep(0.01)  # until the end of the connection has come
        return first, await client.post("b", b"")

    found, seen = talk(work, answer(b"1"), answer(b"2"), close=True)

    assert (b"1", b"2") == found
    assert 2 == len(seen)


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (None, "server_unreachable"),
        (answer(b"x" * 50)[:-10], "server_unreachable"),
        (b"nonsense\r\n\r\n", "server_unreachable"),
        (answer(b"no \x1b[31m", status=b"500 Oh"), "server_refused"),
        (answer(status=b"302 Found", headers=b"location: /x\r\n"), "server_refused"),
    ],
)
def test_bad_answers_have_a_code(reply, code):
    """An answer that is cut, is no HTTP, or has another status is an error with a code."""

    async def work(client, _):
        with pytest.raises(ServerError) as caught:
            await client.post("tool", b"")
        return caught.value

    error, _ = talk(work, reply, close=True)

    assert code == error.code
    assert "\x1b" not in str(error)


def test_silence_is_bounded(monkeypatch):
    """A server that does not answer is given up, and its connection with it."""
    monkeypatch.setattr(connection, "CALL_SECONDS", 0.05)

    async def work(client, channel):
        with pytest.raises(ServerError) as caught:
            await client.post("tool", b"")
        return caught.value.code, await channel.send("GET", "/health", b"", [])

    (code, after), _ = talk(work, b"", answer(b"ok"))

    assert "server_timeout" == code
    assert (200, b"ok") == (after.status, after.content)


def test_nobody_listens():
    """A port without a server is unreachable, and not alive."""

    async def work():
        server = Server("http://127.0.0.1:9")
        with pytest.raises(ServerError) as caught:
            await Channel(server).send("GET", "/health", b"", [])
        return caught.value.code, await is_alive(server)

    assert ("server_unreachable", False) == asyncio.run(work())


@pytest.mark.parametrize(
    "url",
    ["", "nonsense", "ftp://h", "http://", "http://h:x", "http://h:99999", "http://ü"],
)
def test_what_is_no_url(url):
    """A URL that nothing can be asked at is refused before anything is."""
    with pytest.raises(SchemaError) as caught:
        Server(url)

    assert "invalid_url" == caught.value.code


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://h", (False, "h", 80, "", b"h:80")),
        ("https://h/p/", (True, "h", 443, "/p", b"h:443")),
        ("http://[::1]:8000", (False, "::1", 8000, "", b"[::1]:8000")),
    ],
)
def test_a_url_has_parts(url, parts):
    """Ports have their defaults, and addresses of the new kind their brackets."""
    server = Server(url)
    found = (server.secure, server.host, server.port, server.path, server.authority)

    assert parts == found
