"""Calls over HTTP: what is sent, what an answer means, how long it is waited for."""

from __future__ import annotations

import asyncio
import json
import pickle
import socket
import sys
import time

from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

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


if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


pytestmark = pytest.mark.anyio
SERVER = ServerAddress("ipi", "http://ipi.test/base")
DONE = {"phase": "idle", "idempotent": True}


class Saying:
    """An application that answers, and notes what it was asked."""

    def __init__(
        self,
        status: int,
        content: bytes,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        self.seen: list[tuple[Scope, bytes]] = []
        self.status, self.content, self.headers = status, content, headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while (message := await receive()).get("more_body"):
            body += message["body"]
        self.seen.append((scope, body + message["body"]))
        start = {"type": "http.response.start", "status": self.status}
        await send(start | {"headers": [*self.headers]})
        await send({"type": "http.response.body", "body": self.content})


def doing(what: Callable[..., object]) -> Callable[..., Awaitable[None]]:
    """Return an application that does something with a connection, and answers nothing."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        what(scope["transport"])

    return app


@pytest.fixture
def called(
    control: Callable[..., Awaitable[ControlClient]],
) -> Callable[..., Awaitable[Any]]:
    """Return a function that makes one call, answered by an application."""

    async def call(app: Callable[..., Awaitable[None]], seconds: float = 5.0) -> Any:
        client = await control(Loopback({"ipi.test": app}))
        return await client.operate(SERVER, "resume", {"a": 1}, ResumeReply, seconds)

    return call


async def test_what_is_sent(
    called: Callable[..., Awaitable[Any]],
) -> None:
    """A POST below the server's URL, with JSON and the bearer token."""
    app = Saying(200, json.dumps(DONE).encode())

    reply = await called(app)
    scope, body = app.seen[0]
    headers = dict(scope["headers"])

    assert isinstance(reply, ResumeReply)

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
async def test_refusals(
    called: Callable[..., Awaitable[Any]],
    status: int,
    body: bytes,
    code: str | None,
    detail: str,
) -> None:
    """Every form of refusal is read; a redirect is one, too."""
    headers = [(b"location", b"http://elsewhere.test/")]
    failure = await called(Saying(status, body, headers))

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


async def test_long_details_are_cut(
    called: Callable[..., Awaitable[Any]],
) -> None:
    """A failure repeats a bounded part of the answer."""
    failure = await called(Saying(500, b'"%s"' % (b"x" * 10_000)))

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
async def test_invalid_replies(
    called: Callable[..., Awaitable[Any]], body: bytes, told: str
) -> None:
    """A 200 that is not the operation's reply is a failure."""
    failure = await called(Saying(200, body))

    assert (FailureReason.INVALID_REPLY, 200) == (failure.reason, failure.status)
    assert told in failure.detail


@pytest.mark.parametrize(
    "app",
    [
        doing(lambda connection: connection.abort()),
        doing(lambda connection: connection.close()),
        doing(lambda connection: [connection.write(b"nonsense"), connection.close()]),
        Saying(200, b"{", [(b"content-length", b"99")]),
        Saying(200, b"not packed", [(b"content-encoding", b"gzip")]),
    ],
    ids=["reset", "closed", "foreign", "cut", "not packed"],
)
async def test_broken_connections(
    called: Callable[..., Awaitable[Any]],
    app: Callable[..., Awaitable[None]],
) -> None:
    """A connection that breaks, or an answer that cannot be read, is told with some text."""
    failure = await called(app)

    assert (FailureReason.UNREACHABLE, None) == (failure.reason, failure.status)
    assert failure.detail


async def test_broken_connections_are_not_tried_again(
    called: Callable[..., Awaitable[Any]],
) -> None:
    """A participant may have acted on a call whose connection broke."""
    seen: list[int] = []

    def abort(connection: asyncio.Transport) -> None:
        seen.append(1)
        connection.abort()

    await called(doing(abort))

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
async def test_addresses_that_no_library_can_use(
    control: Callable[..., Awaitable[ControlClient]], url: str
) -> None:
    """Whatever the library raises for an address, the call has failed, no more."""
    client = await control(Loopback({}))
    failure = await client.status(ServerAddress("x", url), ResumeReply, 5.0)
    assert isinstance(failure, Failure)

    assert FailureReason.UNREACHABLE is failure.reason
    assert failure.detail


@pytest.mark.parametrize("error", [OverflowError(), UnicodeError("no host"), OSError()])
async def test_errors_of_the_name_service(
    control: Callable[..., Awaitable[ControlClient]], error: Exception
) -> None:
    """What finding a host raises fails the call, no more."""

    class Failing(Loopback):
        async def resolve(self, *_: Any, **__: Any) -> NoReturn:
            raise error

    client = await control(Failing({}))
    failure = await client.status(SERVER, ResumeReply, 5.0)
    assert isinstance(failure, Failure)

    assert FailureReason.UNREACHABLE is failure.reason


async def test_cookies_are_not_kept(
    control: Callable[..., Awaitable[ControlClient]],
) -> None:
    """What one peer sets is not sent to another, and cannot break its calls."""
    cookie = (b"set-cookie", b"z=\xe9\xff; Path=/")
    app = Saying(200, json.dumps(DONE).encode(), [cookie])
    client = await control(Loopback({"ipi.test": app}))
    for _ in range(2):
        reply = await client.operate(SERVER, "resume", {}, ResumeReply, 5.0)
        assert isinstance(reply, ResumeReply)

        assert "idle" == reply.phase
    assert [False, False] == [b"cookie" in dict(s["headers"]) for s, _ in app.seen]


async def test_endless_answers(
    called: Callable[..., Awaitable[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An answer is not read beyond its limit."""
    monkeypatch.setattr("ipistate.clients.control_client.MAX_REPLY_BYTES", 100)

    failure = await called(Saying(200, b"x" * 101))

    assert FailureReason.INVALID_REPLY is failure.reason
    assert "longer than 100 bytes" == failure.detail


async def test_no_answer_in_time(
    called: Callable[..., Awaitable[Any]],
) -> None:
    """A call ends after its seconds, whatever the server does."""

    async def answer(*_: dict[str, Any] | Callable[..., Any]) -> None:
        await asyncio.Event().wait()

    failure = await called(answer, seconds=0.01)

    assert FailureReason.TIMED_OUT == failure.reason


async def test_connections_are_tried_three_times(
    control: Callable[..., Awaitable[ControlClient]],
) -> None:
    """A server that comes up within the third try is reached."""
    loop, client = asyncio.get_running_loop(), await control()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        async def serve(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            await reader.readuntil(b"\r\n\r\n")
            text = json.dumps(DONE)
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n".encode())
            writer.write(b"Connection: close\r\n\r\n" + text.encode())
            await writer.drain()
            writer.close()

        # Refused until then: a bound socket that does not listen takes nobody.
        server = await asyncio.start_server(serve, sock=listener, start_serving=False)
        starting: list[asyncio.Task[Any]] = []
        loop.call_later(
            0.2, lambda: starting.append(loop.create_task(server.start_serving()))
        )
        began = time.monotonic()
        reply = await client.status(ServerAddress("x", url), ResumeReply, 5.0)
        waited = time.monotonic() - began
        server.close()
        await server.wait_closed()
        assert isinstance(reply, ResumeReply)

    assert ResumeReply(phase="idle", idempotent=True) == reply
    assert 0.2 < waited < 5


async def test_server_that_is_down(
    control: Callable[..., Awaitable[ControlClient]],
) -> None:
    """After three refused connections a server counts as unreachable."""
    client = await control()
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        failure = await client.status(ServerAddress("x", url), ResumeReply, 5.0)
        assert isinstance(failure, Failure)

    assert FailureReason.UNREACHABLE == failure.reason


@pytest.mark.parametrize("token", ["", " a", "a\n", "é", "a\x00"])
def test_tokens_that_no_header_can_carry(token: str) -> None:
    """They are refused at once, not repeated in the message."""
    with pytest.raises(ValueError, match="printable ASCII"):
        ControlClient(token)


async def test_token_is_not_shown(
    control: Callable[..., Awaitable[ControlClient]],
) -> None:
    """The token is in no representation of the client."""
    client = await control(token="se-cret")
    within = client._client

    told = (client, vars(client), within, vars(within))
    assert "se-cret" not in "".join(map(repr, told))


async def test_token_is_not_in_failures(
    control: Callable[..., Awaitable[ControlClient]],
) -> None:
    """A peer that answers no HTTP cannot make a failure repeat the token."""
    echo = doing(lambda connection: [connection.write(b"se-cret\r\n\r\n")])
    client = await control(Loopback({"ipi.test": echo}), token="se-cret")
    failure = await client.status(SERVER, ResumeReply, 5.0)
    assert isinstance(failure, Failure)

    assert FailureReason.UNREACHABLE is failure.reason
    assert "[token]" in failure.detail
    assert "se-cret" not in repr(failure)


async def test_no_proxy_is_asked(
    called: Callable[..., Awaitable[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the environment says about proxies is for others."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    reply = await called(Saying(200, json.dumps(DONE).encode()))
    assert isinstance(reply, ResumeReply)

    assert "idle" == reply.phase


def test_missing_aiohttp_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without aiohttp the package says what to install."""
    for name in [*sys.modules]:
        if name.startswith("ipistate.clients"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(ModuleNotFoundError, match=r"ipistate\[client\]"):
        import_module("ipistate.clients")


def test_errors_survive_pickling() -> None:
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


def test_what_an_error_says() -> None:
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
