"""The HTTP module by itself: bounds, kept connections, cookies, proxies, hidden keys."""

from __future__ import annotations

import asyncio
import gzip

from typing import TYPE_CHECKING, Any

import pytest

from loopback import Loopback

from ipistate.clients.http import (
    BearerKey,
    Bounds,
    HttpAnswer,
    HttpClient,
    HttpError,
    base_url,
)


if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


pytestmark = pytest.mark.anyio
BOUNDS = Bounds(size=1000, total=20.0)


class Answering:
    """An application that answers with the same bytes, and notes requests and connections."""

    def __init__(
        self,
        content: bytes = b"",
        status: int = 200,
        headers: list[tuple[bytes, bytes]] | tuple[Any, ...] = (),
    ) -> None:
        self.content, self.status, self.headers = content, status, [*headers]
        self.seen: list[tuple[str, dict[bytes, bytes]]] = []
        self.connections: set[tuple[str, int]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        self.seen.append((scope["path"], dict(scope["headers"])))
        self.connections.add(scope["client"])
        headers = [*self.headers, (b"content-length", b"%d" % len(self.content))]
        start = {"type": "http.response.start", "status": self.status}
        await send(start | {"headers": headers})
        await send({"type": "http.response.body", "body": self.content})


async def asked(
    app: ASGIApp,
    times: int = 1,
    *,
    bounds: Bounds = BOUNDS,
    cookies: list[tuple[str, str]] | tuple[Any, ...] = (),
    **options: Any,
) -> HttpAnswer:
    """Ask an application some times with one client; return the last answer."""
    async with (
        Loopback({"h.test": app}) as network,
        HttpClient(resolver=network, **options) as client,
    ):
        for _ in range(times):
            answer = await client.send(
                "POST",
                "http://h.test",
                "/a",
                b"{}",
                bounds=bounds,
                cookies={**dict(cookies)},
            )
    return answer


@pytest.mark.parametrize("status", [200, 204, 302, 404, 500])
async def test_every_status_is_an_answer(status: int) -> None:
    """Nothing is followed and nothing raised because of a status."""
    app = Answering(status=status, headers=[(b"location", b"http://h.test/b")])
    answer = await asked(app)

    assert status == answer.status
    assert ["/a"] == [path for path, _ in app.seen]
    assert "http://h.test/b" == answer.headers["Location"] == answer.headers["location"]


async def test_content_is_unpacked() -> None:
    """A compressed answer is what it was before."""
    app = Answering(gzip.compress(b"x" * 900), headers=[(b"content-encoding", b"gzip")])

    assert b"x" * 900 == (await asked(app)).content


@pytest.mark.parametrize("packed", [True, False])
async def test_size_is_bounded_after_unpacking(packed: bool) -> None:
    """An answer may have as many bytes as the bound says and no more, packed or not."""
    headers = [(b"content-encoding", b"gzip")] if packed else []
    for size in (1000, 1001):
        content = b"x" * size
        app = Answering(gzip.compress(content) if packed else content, headers=headers)
        if size == 1000:
            assert content == (await asked(app)).content
            continue
        with pytest.raises(HttpError) as caught:
            await asked(app)

        assert "too_large" == caught.value.code
        assert "longer than 1,000 bytes" == caught.value.message


async def test_long_headers_are_read_and_endless_ones_are_not() -> None:
    """A header line may be long, but not without end."""
    assert 200 == (await asked(Answering(headers=[(b"x", b"y" * 60_000)]))).status
    with pytest.raises(HttpError) as caught:
        await asked(Answering(headers=[(b"x", b"y" * 200_000)]))

    assert "broken" == caught.value.code


@pytest.mark.parametrize("pipe", ["stuck", "silent", "dribbling"])
async def test_time_is_bounded(pipe: str) -> None:
    """Whatever a server does not do in time, the request ends by its bounds."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if pipe == "stuck":
            scope["transport"].pause_reading()
        if pipe == "dribbling":
            await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.Event().wait()

    body = b"x" * 2**25 if pipe == "stuck" else b""
    bounds = Bounds(size=9, total=60.0, connect=0.05, read=0.05)
    clock = asyncio.get_running_loop().time
    async with (
        Loopback({"h.test": app}) as network,
        HttpClient(resolver=network) as client,
    ):
        began = clock()
        with pytest.raises(HttpError) as caught:
            await client.send("POST", "http://h.test", "/", body, bounds=bounds)

    assert "timed_out" == caught.value.code
    assert clock() - began < 30


async def test_senseless_chunks_behind_good_ones_do_not_stop_the_clock() -> None:
    """The library waits without end for what follows them; the bound on reading does not."""
    large = 2**21  # more than what is read at once, so that the head is read before

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        part = {"type": "http.response.body", "body": b"x" * large}
        await send(part | {"more_body": True})
        scope["transport"].write(b"zz\r\n{")
        await asyncio.Event().wait()

    bounds = Bounds(size=2 * large, total=60.0, connect=5.0, read=0.5)
    clock = asyncio.get_running_loop().time
    began = clock()
    with pytest.raises(HttpError) as caught:
        await asked(app, bounds=bounds)

    assert caught.value.code in {"timed_out", "broken"}
    assert clock() - began < 30


async def lines_of(
    app: ASGIApp, bounds: Bounds = BOUNDS, **options: Any
) -> list[bytes]:
    """Ask an application once, and read its answer by lines."""
    async with (
        Loopback({"h.test": app}) as network,
        HttpClient(resolver=network, **options) as client,
    ):
        asked = client.lines("http://h.test", "/a", b"{}", bounds=bounds)
        return [line async for line in asked]


async def test_lines_come_one_by_one() -> None:
    """With their ends; the last one may have none. The key is sent."""
    app = Answering(b"one\n\ntwo")
    found = await lines_of(app, key=BearerKey("se-cret", "[key]"))

    assert [b"one\n", b"\n", b"two"] == found
    assert b"Bearer se-cret" == app.seen[0][1][b"authorization"]


@pytest.mark.parametrize(
    ("app", "code"),
    [
        (Answering(b"one", status=404), "broken"),
        (Answering(b"1234\n" * 201), "too_large"),
        (Answering(b"x" * 1001), "too_large"),
    ],
)
async def test_lines_that_cannot_be_used(app: ASGIApp, code: str) -> None:
    """Another status, too many of them, and one that is too long."""
    with pytest.raises(HttpError) as caught:
        await lines_of(app)

    assert code == caught.value.code


@pytest.mark.parametrize("said", [0, 1])
async def test_the_time_of_lines_is_bounded(said: int) -> None:
    """A server that falls silent, at once or behind a line, is not waited for."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if said:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            part = {"type": "http.response.body", "body": b"one\n"}
            await send(part | {"more_body": True})
        await asyncio.Event().wait()

    clock = asyncio.get_running_loop().time
    began = clock()
    with pytest.raises(HttpError) as caught:
        await lines_of(app, Bounds(size=9, total=0.05))

    assert "timed_out" == caught.value.code
    assert clock() - began < 30


@pytest.mark.parametrize(("idle_seconds", "connections"), [(4.0, 1), (0, 3)])
async def test_connections_are_kept_or_not(
    idle_seconds: float, connections: int
) -> None:
    """A client keeps its connection, or has one for each request."""
    app = Answering()
    await asked(app, 3, idle_seconds=idle_seconds)

    assert connections == len(app.connections)


async def test_cookies_are_those_of_the_request() -> None:
    """Set cookies are told and not kept; given ones are sent as they came."""
    app = Answering(
        headers=[(b"set-cookie", b'a="x y"; Path=/'), (b"set-cookie", b"b=1")]
    )
    answer = await asked(app, 2, cookies=[("c", '"d e"'), ("f", "g")])

    assert {"a": '"x y"', "b": "1"} == answer.cookies
    assert [b'c="d e"; f=g'] * 2 == [headers[b"cookie"] for _, headers in app.seen]


async def test_the_key_is_sent_and_shown_nowhere() -> None:
    """It stands in a header of each request, and in no representation."""
    app, key = Answering(), BearerKey("se-cret", "[key]")
    await asked(app, key=key)

    assert b"Bearer se-cret" == app.seen[0][1][b"authorization"]
    assert "se-cret" not in repr(key)
    assert ("a [key] b", b"[key]") == (key.hide("a se-cret b"), key.hide_in(b"se-cret"))


async def test_a_client_that_never_asked_is_closed() -> None:
    """Closing needs no connection."""
    async with HttpClient():
        pass


@pytest.mark.parametrize(
    "url", ["", "h", "ftp://h", "http://", "http://h:x", "http://me:hunter2@h", "//h"]
)
def test_what_is_no_base(url: str) -> None:
    """A URL that nothing can be asked at is refused, and not repeated."""
    with pytest.raises(ValueError, match=r"http\(s\)://host") as caught:
        base_url(url)

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://h/", "http://h"),
        ("http://h/a b/?q#f", "http://h/a%20b"),
        ("http://h/%2F", "http://h/%2F"),
        ("http://bücher.test/ü", "http://xn--bcher-kva.test/%C3%BC"),
    ],
)
def test_a_base_is_encoded(url: str, base: str) -> None:
    """Paths are put below it as they are, so it is as requests need it."""
    assert base == base_url(url)
