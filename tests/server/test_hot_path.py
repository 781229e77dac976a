"""A tool call takes a short way through the server; both ways give the same bytes."""

from __future__ import annotations

import asyncio
import json

from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.datastructures import Secret

from ipistate.kernel.values import JsonObject
from ipistate.protocol import COOKIE_MAX_AGE, cookie_name
from ipistate.server import ServerSettings, create_app
from ipistate.server.adapter.cookies import CLOCK_SKEW, SessionCookie
from ipistate.server.adapter.hot_path import ToolCallLayer
from ipistate.server.uploads import again


if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send
    from tests.server.conftest import Client


pytestmark = pytest.mark.anyio

TOKEN = "a-token"
NAME = cookie_name()
LIMIT = 6_000
WORLD = {
    "patients": {"P-7742": {"name": "R. Osei", "chart_notes": "Stable."}},
    "messages": [],
}
KEYS = ["ipi-7", "ipi-7-a1", "ipi-8"]

USUAL: dict[str, Any] = {
    "name": "get_patient_record",
    "prefix": "",
    "body": b'{"patient_id":"P-7742"}',
    "kind": ("application/json",),
    "length": "declared",
    "cookie": "own",
    "method": "POST",
    "cuts": 1,
    "leaves": False,
}
WRITING: dict[str, Any] = {
    **USUAL,
    "name": "update_patient_chart",
    "body": b'{"patient_id":"P-7742","notes":"Seen."}',
}
UNUSUAL: dict[str, list[Any]] = {
    "name": [
        *("update_patient_chart", "no_such_tool", "health", "metrics", "reverify_mode"),
        *("a b", "\u00e9", "a\n", "verify", "close_session", "aggregate_metrics"),
        *("seed_session", "", "x/y", "/verify"),
    ],
    "prefix": [
        *(f"/ng-rollout/{key}" for key in KEYS),
        *("/ng-rollout/-bad", "/ng-rollout/x-a" + "9" * 5_000, "/ng-rollout"),
        "/ng-rollout/a-a1-a1",
    ],
    "body": [
        *(b"", b"{}", b"[]", b"null", b"{", b"\xff", b'{"a":1e999}', b'{"a":NaN}'),
        *(b'{"patient_id":"\\ud800"}', b'{"patient_id":18446744073709551616}'),
        b'{"a":%b}' % (b"1" * 5_000),
        *(b"[" * depth + b"]" * depth for depth in (300, 2_000)),
        b'{"patient_id":"%b"}' % (b"x" * LIMIT),
    ],
    "kind": [
        *(("application/json; charset=utf-8",), ("Application/JSON",), ("text/plain",)),
        *((), ("text/plain", "application/json"), ("application/json", "text/plain")),
    ],
    "length": ["none", "chunked", "both", "short", "repeated", "signed", "huge"],
    "cookie": [
        *(
            "none",
            "tampered",
            "foreign",
            "unquoted",
            "old",
            "ahead",
            "future",
            "beside",
        ),
        *("two", "twice", "nameless", "odd", "more"),
    ],
    "method": ["GET", "PUT"],
    "cuts": [2, 3],
    "leaves": [True],
}


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a usual call with a few things about it that are not."""
    names = draw(st.lists(st.sampled_from([*UNUSUAL]), max_size=3, unique=True))
    usual = draw(st.sampled_from([USUAL, WRITING]))
    return {**usual, **{name: draw(st.sampled_from(UNUSUAL[name])) for name in names}}


REQUESTS = requests()
STEPS = st.lists(
    st.one_of(
        REQUESTS.map(lambda request: ("ask", request)),
        REQUESTS.map(lambda request: ("ask", request)),
        st.tuples(st.just("seed"), st.sampled_from(["", *KEYS])),
        st.tuples(st.just("close"), st.lists(REQUESTS, max_size=3)),
        st.tuples(st.just("retire"), st.sampled_from(KEYS)),
        st.tuples(st.just("wait"), st.sampled_from([0.4, 1.0, 90.0])),
    ),
    min_size=1,
    max_size=12,
)


class Server:
    """An application, and what is known about its one client."""

    def __init__(self, clock: list[float], *, short: bool, **options: Any) -> None:
        """Start without sessions; without the short way if it is not wanted."""
        given = ServerSettings(
            checkpoint_token=Secret(TOKEN), max_body_bytes=LIMIT, **options
        )
        self.app = create_app(given, clock=lambda: clock[0], steady=lambda: clock[0])
        if not short:
            layers: list[Any] = self.app.user_middleware
            self.app.user_middleware = [m for m in layers if m.cls is not ToolCallLayer]
        self.clock = clock
        self.own: str | None = None
        self.ids: dict[str, int] = {}

    def cookie(self, kind: str) -> list[bytes]:
        """Return the Cookie headers of a request."""
        own = (self.own or f"{NAME}=x").encode()

        def signed(
            session: dict[str, Any], secret: str = NAME, now: float = self.clock[0]
        ) -> bytes:
            cookie = SessionCookie(NAME, secret, lambda: now)
            return cookie.pair(session).encode()

        fixed = {"session_id": "5"}
        return {
            "own": [own],
            "none": [],
            "tampered": [own[:-1] + b"!"],
            "foreign": [signed(fixed, "another secret")],
            "unquoted": [own.replace(b"=", b"", 1)],
            "old": [signed(fixed, now=self.clock[0] - COOKIE_MAX_AGE - 1)],
            "ahead": [signed(fixed, now=self.clock[0] + 2)],
            "future": [signed(fixed, now=self.clock[0] + CLOCK_SKEW + 1)],
            "beside": [b"a=b; " + own + b"; c"],
            "two": [own, b"a=b"],
            "twice": [signed(fixed) + b"; " + own],
            "nameless": [signed({})],
            "odd": [signed({"session_id": 5, "x": None})],
            "more": [signed({"x": [1.5, "\u00e9"], "session_id": "more"})],
        }[kind]

    def headers(
        self, body: bytes, kind: Sequence[str], length: str, cookie: str
    ) -> list[tuple[bytes, bytes]]:
        """Write a request's headers."""
        size = b"%d" % len(body)
        found = [(b"host", b"server.test")]
        found += [(b"content-type", one.encode()) for one in kind]
        found += {
            "declared": [(b"content-length", size)],
            "none": [],
            "chunked": [(b"transfer-encoding", b"chunked")],
            "both": [(b"transfer-encoding", b"chunked"), (b"content-length", size)],
            "short": [(b"content-length", b"5"), (b"transfer-encoding", b"chunked")],
            "repeated": [(b"content-length", size)] * 2,
            "signed": [(b"content-length", b"+" + size)],
            "huge": [(b"content-length", b"9" * 25)],
        }[length]
        return found + [(b"cookie", one) for one in self.cookie(cookie)]

    def start(
        self,
        path: str,
        body: bytes,
        headers: list[tuple[bytes, bytes]],
        *,
        method: str = "POST",
        cuts: int = 1,
        leaves: bool = False,
    ) -> asyncio.Task[Any]:
        """Send a request and return its task, which gives what was answered."""
        size = len(body) // cuts + 1
        pieces = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
        inbox = [
            {"type": "http.request", "body": piece, "more_body": number < len(pieces)}
            for number, piece in enumerate(pieces, 1)
        ]
        if leaves:
            inbox[-1:] = [{"type": "http.disconnect"}]
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            if not inbox:
                await asyncio.Event().wait()
            return inbox.pop(0)

        async def send(message: Message) -> None:
            sent.append(message)

        async def serve() -> list[dict[str, Any]]:
            await self.app(scope, receive, send)
            return sent

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": b"",
            "query_string": b"",
            "root_path": "",
            "headers": headers,
        }
        return asyncio.ensure_future(serve())

    def ask(
        self,
        name: str,
        prefix: str,
        body: bytes,
        kind: str,
        length: str,
        cookie: str,
        **options: Any,
    ) -> asyncio.Task[Any]:
        """Send one of the drawn requests."""
        headers = self.headers(body, kind, length, cookie)
        return self.start(f"{prefix}/{name}", body, headers, **options)

    def post(
        self, path: str, document: dict[str, Any], *headers: tuple[bytes, bytes]
    ) -> asyncio.Task[Any]:
        """Send a request that is as it should be."""
        body = json.dumps(document).encode()
        given = self.headers(body, ["application/json"], "declared", "own")
        return self.start(path, body, [*given, *headers])

    def control(self, name: str, **members: Any) -> asyncio.Task[Any]:
        """Make a control call."""
        body = {"checkpoint_id": "c-1", "deadline_ts": self.clock[0] + 20, **members}
        token = (b"authorization", f"Bearer {TOKEN}".encode())
        return self.post(f"/ng-control/v1/checkpoint/{name}", body, token)

    def shown(
        self, sent: list[dict[str, Any]]
    ) -> tuple[list[tuple[bytes, bytes | dict[str, Any]]], list[dict[str, Any]]]:
        """Return an answer in which new session ids are numbered, not random."""
        headers: list[tuple[bytes, bytes | dict[str, int]]] = []
        for name, value in sent[0]["headers"] if sent else ():
            shown = value
            if name == b"set-cookie":
                pair = value.split(b";")[0]
                cookie = SessionCookie(NAME, NAME, lambda: self.clock[0])
                session = cookie.session([pair])
                assert value == cookie.write(session)
                shown = {**session, "session_id": self.number(session["session_id"])}
                self.own = pair.decode()
            headers.append((name, shown))
        rest = [{**message, "headers": None} for message in sent]
        return headers, rest

    def number(self, session_id: str) -> int:
        """Return the number of a session, in the order in which they were seen."""
        return self.ids.setdefault(session_id, len(self.ids))

    @property
    def state(self) -> tuple[dict[int, tuple[bytes, int]], int, JsonObject]:
        """Return the worlds of all sessions and the participant's status."""
        shell = self.app.state.shell
        worlds = {
            self.number(name): (one.environment.to_json(), len(one.log))
            for name, one in shell.sessions.held([*self.ids]).items()
        }
        return worlds, len(shell.sessions), shell.status()


class Pair:
    """Two servers that are told the same."""

    def __init__(self, clock: list[float], **options: Any) -> None:
        """Start both."""
        self.clock = clock
        self.servers = [
            Server(clock, short=short, **options) for short in (True, False)
        ]

    async def both(
        self, action: Callable[..., Awaitable[list[dict[str, Any]]] | asyncio.Task[Any]]
    ) -> None:
        """Do the same to both, and compare what each answers and holds."""
        found = [one.shown(await action(one)) for one in self.servers]
        assert found[0] == found[1]
        states = [one.state for one in self.servers]
        assert states[0] == states[1]

    async def ask(self, request: dict[str, Any]) -> None:
        """Send a request."""
        await self.both(lambda server: server.ask(**request))

    async def seed(self, key: str) -> None:
        """Seed the client's session, for an episode if there is a key."""
        path = f"/ng-rollout/{key}/seed_session" if key else "/seed_session"
        await self.both(lambda server: server.post(path, {"environment": WORLD}))

    async def close(self, requests: list[Any]) -> None:
        """Let requests meet a closed gate, which opens while they wait."""
        await self.both(lambda server: server.control("prepare"))
        waiting = [[one.ask(**r) for r in requests] for one in self.servers]
        for _ in range(20):
            await asyncio.sleep(0)
        await self.both(lambda server: server.control("resume"))
        answers = [await asyncio.gather(*tasks) for tasks in waiting]
        for ours, theirs in zip(*answers, strict=True):
            first, second = self.servers
            assert first.shown(ours) == second.shown(theirs)

    async def retire(self, key: str) -> None:
        """Retire an attempt; what still belongs to it is refused."""
        rollout, _, attempt = key.partition("-a")
        episode = {"rollout_id": rollout, "attempt": int(attempt or 0)}
        await self.both(lambda server: server.control("retire", episode_ids=[episode]))

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.clock[0] += seconds


BIG = b'{"patient_id":"%b"}' % (b"x" * LIMIT)
ALONE = [{name: value} for name, values in UNUSUAL.items() for value in values]


@pytest.mark.parametrize(
    "unusual",
    [{}, *ALONE, *({"body": BIG, "length": one} for one in UNUSUAL["length"])],
    ids=count(),
)
@pytest.mark.parametrize("retired", [False, True])
async def test_one_unusual_thing(unusual: dict[str, Any], retired: bool) -> None:
    """Each alone, with a session and after it was retired."""
    pair = Pair([1_700_000_000.0])
    await pair.seed("ipi-7")
    if retired:
        await pair.retire("ipi-7")
    for usual in (USUAL, WRITING):
        await pair.ask({**usual, **unusual})
    await pair.ask(USUAL)


async def test_who_waited_goes_first() -> None:
    """A call that comes when the gate opens does not overtake one that waited."""
    pair = Pair([1_700_000_000.0])
    await pair.seed("ipi-7")
    outputs: list[str] = []
    for server in pair.servers:
        await server.control("prepare")
        waiting = server.ask(**WRITING)
        for _ in range(20):
            await asyncio.sleep(0)
        opening, reading = server.control("resume"), server.ask(**USUAL)
        answers = await asyncio.gather(opening, waiting, reading)
        outputs.append(json.loads(answers[-1][1]["body"])["output"])

    assert "Seen." in outputs[0]
    assert outputs[0] == outputs[1]


@settings(deadline=None, max_examples=4 * settings().max_examples)
@given(steps=STEPS, extension=st.booleans(), idle=st.sampled_from([None, 60.0]))
def test_both_ways_give_the_same(
    steps: list[tuple[str, Any]], extension: bool, idle: float | None
) -> None:
    """Status, headers, body, worlds and counts, whatever is asked in whatever order."""

    async def run() -> None:
        pair = Pair([1_700_000_000.0], extension=extension, idle_seconds=idle)
        await pair.seed("ipi-7")
        for name, argument in steps:
            await getattr(pair, name)(argument)

    asyncio.run(asyncio.wait_for(run(), 30))


async def test_the_usual_call_takes_the_short_way(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """With a cookie or a prefix alone, nothing behind the layer is asked."""
    client = await connect()
    await client.seed(world, key="ipi-7")
    first, second = await connect(client.app), await connect(client.app)
    layers: list[Any] = client.app.user_middleware
    (layer,) = [m for m in layers if m.cls is ToolCallLayer]

    async def unreachable(*_: object) -> None:
        pytest.fail("the call went on")

    short = ToolCallLayer(unreachable, **layer.kwargs)

    async def in_one_piece(scope: Scope, receive: Receive, send: Send) -> None:
        # As a connection gives it; the test client ends each body with an empty piece.
        piece = {**await receive(), "more_body": False}
        await short(scope, again(piece, receive), send)

    client.app.middleware_stack = in_one_piece
    read = {"patient_id": "P-7742"}
    replies = [
        await client.post("/get_patient_record", json=read),
        await client.post("/no_such_tool", json={}),
        await first.post("/ng-rollout/ipi-7/get_patient_record", json=read),
        await second.post("/get_patient_record", json=read),
        await client.post("/get_patient_record", json=[]),
    ]

    assert [200, 200, 200, 400, 422] == [one.status_code for one in replies]
    assert replies[0].content == replies[2].content
