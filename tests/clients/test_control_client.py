"""Calls over HTTP: what is sent, what an answer means, how long it is waited for."""

from __future__ import annotations

import asyncio
import json
import pickle
import socket
import sys
import time

from importlib import import_module

import httpx
import pytest

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


@pytest.fixture
def called(control):
    """Return a function that makes one call, answered by a function of the request."""

    async def call(handler, seconds=5.0):
        client = await control(httpx.MockTransport(handler))
        return await client.operate(SERVER, "resume", {"a": 1}, ResumeReply, seconds)

    return call


async def test_what_is_sent(called):
    """A POST below the server's URL, with JSON and the bearer token."""
    seen = []

    def answer(request):
        seen.append(request)
        return httpx.Response(200, json=DONE)

    reply = await called(answer)

    assert ResumeReply(phase="idle", idempotent=True) == reply
    assert "http://ipi.test/base/ng-control/v1/checkpoint/resume" == str(seen[0].url)
    assert ("POST", {"a": 1}) == (seen[0].method, json.loads(seen[0].content))
    assert ("Bearer a-token", "application/json") == (
        seen[0].headers["authorization"],
        seen[0].headers["content-type"],
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
    headers = {"location": "http://elsewhere.test/"}
    failure = await called(
        lambda _: httpx.Response(status, content=body, headers=headers)
    )

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
    failure = await called(lambda _: httpx.Response(500, json="x" * 10_000))

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
    failure = await called(lambda _: httpx.Response(200, content=body))

    assert (FailureReason.INVALID_REPLY, 200) == (failure.reason, failure.status)
    assert told in failure.detail


@pytest.mark.parametrize(
    "error",
    [httpx.ConnectError("refused"), httpx.ReadError(""), httpx.DecodingError("x")],
)
async def test_broken_connections(called, error):
    """A connection that fails or breaks is told, with some text."""

    def answer(_):
        raise error

    failure = await called(answer)

    assert (FailureReason.UNREACHABLE, None) == (failure.reason, failure.status)
    assert failure.detail


@pytest.mark.parametrize("error", [OverflowError(), UnicodeError("no host"), OSError()])
async def test_addresses_that_no_library_can_use(called, error):
    """Whatever the library raises for an address, the call has failed, no more."""

    def answer(request):
        raise error

    failure = await called(answer)

    assert FailureReason.UNREACHABLE is failure.reason


async def test_cookies_are_not_kept(control):
    """What one peer sets is not sent to another, and cannot break its calls."""
    seen = []

    def answer(request):
        seen.append("cookie" in request.headers)
        cookie = ("set-cookie", b"z=\xe9\xff; Path=/")
        return httpx.Response(200, json=DONE, headers=[cookie])

    client = await control(httpx.MockTransport(answer))
    for _ in range(2):
        reply = await client.operate(SERVER, "resume", {}, ResumeReply, 5.0)

        assert "idle" == reply.phase
    assert [False, False] == seen


async def test_endless_answers(called, monkeypatch):
    """An answer is not read beyond its limit."""
    monkeypatch.setattr("ipistate.clients.control_client.MAX_REPLY_BYTES", 100)

    failure = await called(lambda _: httpx.Response(200, content=b"x" * 101))

    assert FailureReason.INVALID_REPLY is failure.reason
    assert "longer than 100 bytes" == failure.detail


async def test_no_answer_in_time(called):
    """A call ends after its seconds, whatever the server does."""

    async def answer(_):
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

    assert "se-cret" not in repr(client) + repr(vars(client))


def test_missing_httpx_names_the_extra(monkeypatch):
    """Without httpx the package says what to install."""
    for name in [*sys.modules]:
        if name.startswith("ipistate.clients"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "httpx", None)
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
        "$: retire at ipi (http://ipi.test/base): timed out; "
        "retire at ipi (http://ipi.test/base): HTTP 409 deadline_exceeded too late "
        "[timed_out]"
    ) == str(error)
