"""Calls over HTTP: what is sent, what an answer means, how long it is waited for."""

from __future__ import annotations

import asyncio
import json
import pickle
import socket
import sys
import time

from importlib import import_module

import pytest

from loopback import Loopback

from ipistate.clients.control_client import ControlClient
from ipistate.coordination import (
    CoordinationError,
    Failure,
    FailureReason,
    ServerAddress,
)
from ipistate.coordination.failures import RestoreFailedError
from ipistate.coordination.replies import ResumeReply


pytestmark = pytest.mark.anyio
SERVER = ServerAddress("ipi", "http://ipi.test/base")
DONE = {"phase": "idle", "idempotent": True}


def saying(status, content, headers=()):
    """Return an application that answers, and notes what it was asked."""

    async def app(scope, receive, send):
        body = b""
        while (message := await receive()).get("more_body"):
            body += message["body"]
        app.seen.append((scope, body + message["body"]))
        start = {"type": "http.response.start", "status": status}
        await send(start | {"headers": [*headers]})
        await send({"type": "http.response.body", "body": content})

    app.seen = []
    return app


def doing(what):
    """Return an application that does something with a connection, and answers nothing."""

    async def app(scope, receive, send):
        await receive()
        what(scope["transport"])

    return app


@pytest.fixture
def called(control):
    """Return a function that makes one call, answered by an application."""

    async def call(app, seconds=5.0):
        client = await control(Loopback({"ipi.test": app}))
        return await client.operate(SERVER, "resume", {"a": 1}, ResumeReply, seconds)

    return call


async def test_what_is_sent(called):
    """A POST below the server's URL, with JSON and the bearer token."""
    app = saying(200, json.dumps(DONE).encode())

    reply = await called(app)
    scope, body = app.seen[0]
    headers = dict(scope["headers"])

    assert ResumeReply(phase="idle", idempotent=True) == reply
    assert "/base/ng-control/v1/checkpoint/resume" == scope["path"]
    assert ("POST", {"a": 1}) == (scope["method"], json.loads(body))
    assert (b"Bearer a-token", b"application/json", b"ipi.test") == (
        headers[b"authorization"],
        headers[b"content-type"],
        headers[b"host"],
    )


@pytest.mark.parametrize(
    ("status", "body", "code", "detail"),
    [
        (409, b'{"error": {"code": "c", "detail": "d"}}', "c", "d"),
        (409, b'{"error": {"code": "c", "detail": ["d"]}}', "c", '["d"]'),
        (409, b'{"error": {"code": 7}}', None, '{"error":{"code":7}}'),
        (404, b'{"detail": "Not Found"}', None, "Not Found"),
        (422, b'{"detail": [{"loc": ["body"]}]}', None, '[{"loc":["body"]}]'),
        (500, b'"RuntimeError()"', None, "RuntimeError()"),
        (502, b"<html>Bad Gateway</html>", None, "b'<html>Bad Gateway</html>'"),
        (307, b"", None, ""),
        (503, b"[" * 300, None, "b'" + "[" * 60 + "'…"),
    ],
)
async def test_refusals(called, status, body, code, detail):
    """Every form of refusal is read; a redirect is one, too."""
    headers = [(b"location", b"http://elsewhere.test/")]
    failure = await called(saying(status, body, headers))

    assert (
        Failure(
            server=SERVER,
            operation="resume",
            reason=FailureReason.REFUSED,
            status=status,
            code=code,
            detail=detail,
        )
        == failure
    )


async def test_long_details_are_cut(called):
    """A failure repeats a bounded part of the answer."""
    failure = await called(saying(500, b'"%s"' % (b"x" * 10_000)))

    assert "x" * 400 + "…" == failure.detail


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "Expecting value"),
        (b'{"phase": "idle", "idempotent": NaN}', "NaN"),
        (b'{"phase": "prepared", "idempotent": true}', "phase"),
        (b"[]", "object"),
    ],
)
async def test_invalid_replies(called, body, told):
    """A 200 that is not the operation's reply is a failure."""
    failure = await called(saying(200, body))

    assert (FailureReason.INVALID_REPLY, 200) == (failure.reason, failure.status)
    assert told in failure.detail


@pytest.mark.parametrize(
    "app",
    [
        doing(lambda connection: connection.abort()),
        doing(lambda connection: connection.close()),
        doing(lambda connection: [connection.write(b"nonsense"), connection.close()]),
        saying(200, b"{", [(b"content-length", b"99")]),
        saying(200, b"not packed", [(b"content-encoding", b"gzip")]),
    ],
    ids=["reset", "closed", "foreign", "cut", "not packed"],
)
async def test_broken_connections(called, app):
    """A connection that breaks, or an answer that cannot be read, is told with some text."""
    failure = await called(app)

    assert (FailureReason.UNREACHABLE, None) == (failure.reason, failure.status)
    assert failure.detail


async def test_broken_connections_are_not_tried_again(called):
    """A participant may have acted on a call whose connection broke."""
    seen = []

    await called(doing(lambda connection: [seen.append(1), connection.abort()]))

    assert [1] == seen


@pytest.mark.parametrize(
    "url",
    [
        "http://nowhere.test",
        f"http://{'h' * 70}",
        "http://a..b",
        "http://[::1::2]",
        "http://\udcff",
        "http://127.0.0.1:0",
    ],
)
async def test_addresses_that_no_library_can_use(control, url):
    """Whatever the library raises for an address, the call has failed, no more."""
    client = await control(Loopback({}))
    failure = await client.status(ServerAddress("x", url), ResumeReply, 5.0)

    assert FailureReason.UNREACHABLE is failure.reason
    assert failure.detail


@pytest.mark.parametrize("error", [OverflowError(), UnicodeError("no host"), OSError()])
async def test_errors_of_the_name_service(control, error):
    """What finding a host raises fails the call, no more."""

    class Failing(Loopback):
        async def resolve(self, *_, **__):
            raise error

    client = await control(Failing({}))
    failure = await client.status(SERVER, ResumeReply, 5.0)

    assert FailureReason.UNREACHABLE is failure.reason


async def test_cookies_are_not_kept(control):
    """What one peer sets is not sent to another, and cannot break its calls."""
    cookie = (b"set-cookie", b"z=\xe9\xff; Path=/")
    app = saying(200, json.dumps(DONE).encode(), [cookie])
    client = await control(Loopback({"ipi.test": app}))
    for _ in range(2):
        reply = await client.operate(SERVER, "resume", {}, ResumeReply, 5.0)

        assert "idle" == reply.phase
    assert [False, False] == [b"cookie" in dict(s["headers"]) for s, _ in app.seen]


async def test_endless_answers(called, monkeypatch):
    """An answer is not read beyond its limit."""
    monkeypatch.setattr("ipistate.clients.control_client.MAX_REPLY_BYTES", 100)

    failure = await called(saying(200, b"x" * 101))

    assert FailureReason.INVALID_REPLY is failure.reason
    assert "longer than 100 bytes" == failure.detail


async def test_no_answer_in_time(called):
    """A call ends after its seconds, whatever the server does."""

    async def answer(*_):
        await asyncio.Event().wait()

    failure = await called(answer, seconds=0.01)

    assert FailureReason.TIMED_OUT == failure.reason


async def test_connections_are_tried_three_times(control):
    """A server that comes up within the third try is reached."""
    loop, client = asyncio.get_running_loop(), await control()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        async def serve(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            text = json.dumps(DONE)
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n".encode())
            writer.write(b"Connection: close\r\n\r\n" + text.encode())
            await writer.drain()
            writer.close()

        # Refused until then: a bound socket that does not listen takes nobody.
        server = await asyncio.start_server(serve, sock=listener, start_serving=False)
        starting = []
        loop.call_later(
            0.2, lambda: starting.append(loop.create_task(server.start_serving()))
        )
        began = time.monotonic()
        reply = await client.status(ServerAddress("x", url), ResumeReply, 5.0)
        waited = time.monotonic() - began
        server.close()
        await server.wait_closed()

    assert ResumeReply(phase="idle", idempotent=True) == reply
    assert 0.2 < waited < 5


async def test_server_that_is_down(control):
    """After three refused connections a server counts as unreachable."""
    client = await control()
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        failure = await client.status(ServerAddress("x", url), ResumeReply, 5.0)

    assert FailureReason.UNREACHABLE == failure.reason


@pytest.mark.parametrize("token", ["", " a", "a\n", "é", "a\x00"])
def test_tokens_that_no_header_can_carry(token):
    """They are refused at once, not repeated in the message."""
    with pytest.raises(ValueError, match="printable ASCII"):
        ControlClient(token)


async def test_token_is_not_shown(control):
    """The token is in no representation of the client."""
    client = await control(token="se-cret")
    within = client._client

    told = (client, vars(client), within, vars(within))
    assert "se-cret" not in "".join(map(repr, told))


async def test_token_is_not_in_failures(control):
    """A peer that answers no HTTP cannot make a failure repeat the token."""
    echo = doing(lambda connection: [connection.write(b"se-cret\r\n\r\n")])
    client = await control(Loopback({"ipi.test": echo}), token="se-cret")
    failure = await client.status(SERVER, ResumeReply, 5.0)

    assert FailureReason.UNREACHABLE is failure.reason
    assert "[token]" in failure.detail
    assert "se-cret" not in repr(failure)


async def test_no_proxy_is_asked(called, monkeypatch):
    """What the environment says about proxies is for others."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    reply = await called(saying(200, json.dumps(DONE).encode()))

    assert "idle" == reply.phase


def test_missing_aiohttp_names_the_extra(monkeypatch):
    """Without aiohttp the package says what to install."""
    for name in [*sys.modules]:
        if name.startswith("ipistate.clients"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(ModuleNotFoundError, match=r"ipistate\[client\]"):
        import_module("ipistate.clients")


def test_errors_survive_pickling():
    """An error takes its failures to another process."""
    failures = [
        Failure(server=SERVER, operation="retire", reason=FailureReason.TIMED_OUT),
        Failure(server=SERVER, operation="x", reason=FailureReason.REFUSED, code="c"),
    ]
    for error in (
        CoordinationError.of(failures),
        RestoreFailedError.after(failures, failures[1:]),
    ):
        back = pickle.loads(pickle.dumps(error))

        assert (type(error), str(error), vars(error)) == (
            type(back),
            str(back),
            vars(back),
        )


def test_what_an_error_says():
    """An error names operation, server and cause of each failure."""
    error = CoordinationError.of(
        [
            Failure(server=SERVER, operation="retire", reason=FailureReason.TIMED_OUT),
            Failure(
                server=SERVER,
                operation="retire",
                reason=FailureReason.REFUSED,
                status=409,
                code="deadline_exceeded",
                detail="too late",
            ),
        ]
    )

    assert "timed_out" == error.code
    assert {"timed_out", "deadline_exceeded"} == error.codes
    assert (
        "retire at ipi (http://ipi.test/base): timed out; "
        "retire at ipi (http://ipi.test/base): HTTP 409 deadline_exceeded too late "
        "[timed_out]"
    ) == str(error)
