"""Sessions that nobody uses are freed, and there is a limit to their number."""

from __future__ import annotations

import asyncio
import json
import time

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Secret

from ipistate.kernel.environment import Environment
from ipistate.server.app import create_app
from ipistate.server.live.sessions import (
    NotSeededError,
    Sessions,
    SessionsFullError,
    Uses,
)
from ipistate.server.live.shell import Shell
from ipistate.server.operating.settings import ServerSettings
from ipistate.sessions import Session


if TYPE_CHECKING:
    from starlette.applications import Starlette
    from tests.server.conftest import Client, Wire


pytestmark = pytest.mark.anyio

READ = {"patient_id": "P-7742"}
IDLE = 10.0


class Clock:
    """A clock that stands until a test moves it."""

    def __init__(self) -> None:
        """Begin at some time."""
        self.now = 5_000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return the clock of idle sessions."""
    return Clock()


@pytest.fixture
def idle(
    connect: Callable[..., Awaitable[Client]], clock: Clock
) -> Callable[..., Awaitable[Client]]:
    """Return a maker of clients of one server that frees idle sessions.

    ``client.shell`` is the server's shell; nothing is swept until it is told to.
    """
    first: Starlette | None = None

    async def make(**settings: Any) -> Client:
        nonlocal first
        options = {"idle_seconds": IDLE, "metrics": True, **settings}
        client = await connect(None if settings else first, steady=clock, **options)
        first, client.shell = first or client.app, client.app.state.shell
        return client

    return make


async def is_there(client: Client) -> bool:
    """Tell whether the client's session has a world."""
    found = client.shell.sessions
    ids = [name for name in (await session_ids(client)) if name in found]
    return bool(ids)


async def session_ids(client: Client) -> list[str]:
    """Return the id that the client's cookie names."""
    from base64 import b64decode  # noqa: PLC0415

    ((_, value),) = client.cookies.items()
    return [json.loads(b64decode(value.partition(".")[0]))["session_id"]]


# -- the sweep ---------------------------------------------------------------------


async def test_an_unused_session_is_freed(
    idle: Callable[..., Awaitable[Client]], clock: Clock
) -> None:
    """At the end of the time, not before; its cookie gets a clear answer."""
    client = await idle()
    await client.seed(key="ipi-7")
    clock.now += IDLE - 0.1
    client.shell.sweep()
    before = await is_there(client)
    clock.now += 0.1
    client.shell.sweep()
    reply = await client.post("/get_patient_record", json=READ)
    metrics = (await client.get("/metrics")).text

    assert before
    assert 400 == reply.status_code
    assert reply.json()["detail"].startswith("Session not initialized.")
    assert "unused for too long" in reply.headers["x-ipistate-hint"]
    assert {"inflight": 0, "sessions": 0} == await client.counts()
    assert "ipistate_sessions_swept_total 1.0" in metrics
    assert "ipistate_sessions 0.0" in metrics


async def test_every_request_is_a_use(
    idle: Callable[..., Awaitable[Client]], clock: Clock
) -> None:
    """Also one that is refused by its tool."""
    client = await idle()
    await client.seed()
    for _ in range(3):
        clock.now += IDLE - 1
        await client.post("/no_such_tool", json={})
        client.shell.sweep()

    assert await is_there(client)


async def test_a_request_refused_in_flight_is_a_use(
    idle: Callable[..., Awaitable[Client]],
    clock: Clock,
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """A fork into an attempt that is retired meanwhile harms its session no more."""
    client = await idle(extension=True)
    await client.seed()
    ((name, value),) = client.cookies.items()
    headers = {"authorization": "Bearer a-token"}
    sent = wire(
        client.app,
        "/ipistate/v1/fork",
        None,
        cookie=f"{name}={value}",
        headers=headers,
        slow=True,
    )
    await settled()
    await client.control("retire", episode_ids=[{"rollout_id": "a"}])
    clock.now += IDLE
    sent.give(b'{"episode_ids": [{"rollout_id": "a"}]}')
    await sent.task
    client.shell.sweep()

    assert (409, True) == (sent.status, await is_there(client))


async def test_looking_at_a_session_is_no_use(
    idle: Callable[..., Awaitable[Client]], clock: Clock
) -> None:
    """A GET does not pass the gate; whoever watches keeps nothing alive."""
    client = await idle(extension=True)
    await client.seed()
    clock.now += IDLE - 1
    looked = await client.extended("history")
    clock.now += 1
    client.shell.sweep()

    assert (200, False) == (looked.status_code, await is_there(client))


async def test_without_the_option_nothing_is_swept(
    idle: Callable[..., Awaitable[Client]], clock: Clock
) -> None:
    """However long a session is unused."""
    client = await idle(idle_seconds=None)
    await client.seed()
    clock.now += 1e9
    client.shell.sweep()

    assert await is_there(client)


async def test_a_session_with_a_request_in_flight_stays(
    idle: Callable[..., Awaitable[Client]],
    clock: Clock,
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """However long it takes; the time begins when it has been answered."""
    client = await idle()
    await client.seed()
    ((name, value),) = client.cookies.items()
    path, cookie = "/get_patient_record", f"{name}={value}"
    sent = wire(client.app, path, None, cookie=cookie, slow=True)
    await settled()
    clock.now += 3 * IDLE
    client.shell.sweep()
    sent.give(json.dumps(READ).encode())
    await sent.task
    clock.now += IDLE - 1
    client.shell.sweep()

    assert 200 == sent.status
    assert await is_there(client)


async def test_nothing_is_swept_while_a_checkpoint_is_open(
    idle: Callable[..., Awaitable[Client]], clock: Clock, tmp_path: Path
) -> None:
    """And after the resume every session has its whole time again."""
    client = await idle()
    await client.seed(key="ipi-7")
    far = time.time() + 4 * IDLE
    await client.control("prepare", deadline_ts=far)
    clock.now += 3 * IDLE
    client.shell.sweep()
    given: Any = {"checkpoint_dir": str(tmp_path), "deadline_ts": far}
    reply = await client.control("commit", **given)
    await client.control("resume")
    clock.now += IDLE - 1
    client.shell.sweep()
    stays = await is_there(client)
    clock.now += 1
    client.shell.sweep()

    assert ["ipi-7"] == reply.json()["episode_ids"]
    assert (True, False) == (stays, await is_there(client))


async def test_restored_sessions_count_from_the_resume(
    idle: Callable[..., Awaitable[Client]], clock: Clock, tmp_path: Path
) -> None:
    """Nobody could use them before."""
    client = await idle()
    await client.seed(key="ipi-7")
    await client.control("prepare")
    await client.control("commit", checkpoint_dir=str(tmp_path))
    fresh = await idle(instance_name="ipi")
    fresh.cookies = client.cookies
    members: dict[str, Any] = {
        "checkpoint_dir": str(tmp_path),
        "episode_ids": [{"rollout_id": "ipi-7"}],
    }
    restored = await fresh.control("restore", "r", **members)
    clock.now += 3 * IDLE
    fresh.shell.sweep()
    await fresh.control("resume", "r")
    clock.now += IDLE - 1
    fresh.shell.sweep()
    stays = await is_there(fresh)
    clock.now += 1
    fresh.shell.sweep()

    assert 200 == restored.status_code
    assert (True, False) == (stays, await is_there(fresh))
    assert 0 == (await fresh.counts())["sessions"]


async def test_what_ended_is_not_counted_as_swept(
    idle: Callable[..., Awaitable[Client]], clock: Clock, verify_body: dict[str, Any]
) -> None:
    """A verified session is over; its hint speaks of no sweep."""
    client = await idle()
    await client.seed()
    await client.post("/verify", json=verify_body)
    clock.now += 2 * IDLE
    client.shell.sweep()
    reply = await client.post("/get_patient_record", json=READ)

    assert "has no world" in reply.headers["x-ipistate-hint"]
    assert "ipistate_sessions_swept_total 0.0" in (await client.get("/metrics")).text


async def test_a_swept_session_can_be_seeded_again(
    idle: Callable[..., Awaitable[Client]], clock: Clock, verify_body: dict[str, Any]
) -> None:
    """It is a session like any other then."""
    client = await idle()
    await client.seed()
    clock.now += IDLE
    client.shell.sweep()
    await client.seed()
    told = await client.post("/get_patient_record", json=READ)
    await client.post("/verify", json=verify_body)
    reply = await client.post("/get_patient_record", json=READ)

    assert 200 == told.status_code
    assert "has no world" in reply.headers["x-ipistate-hint"]


async def test_a_swept_native_session_is_not_closed(
    idle: Callable[..., Awaitable[Client]], clock: Clock, world: dict[str, Any]
) -> None:
    """A close closes its id for ever, swept or not; a sweep alone does not."""
    client = await idle()
    names = {"resources_session_id": "rs-1", "episode_id": {"rollout_id": "ipi-7"}}
    seed = names | {
        "task_id": {"taskset": "t", "task_id": "1"},
        "task_data": {"environment": world},
    }
    await client.post("/ng-rollout/ipi-7/seed_session", json=seed)
    clock.now += IDLE
    client.shell.sweep()
    again = await client.post("/ng-rollout/ipi-7/seed_session", json=seed)
    clock.now += IDLE
    client.shell.sweep()
    closed = await client.post("/close_session", json=names)
    late = await client.post("/ng-rollout/ipi-7/seed_session", json=seed)

    assert (200, 200, 409) == (
        again.status_code,
        closed.status_code,
        late.status_code,
    )


async def test_forks_are_swept_like_all_sessions(
    idle: Callable[..., Awaitable[Client]], clock: Clock
) -> None:
    """A fork that nobody uses goes, its parent that is used stays."""
    client = await idle(extension=True)
    await client.seed(key="ipi-7")
    episodes = [{"rollout_id": "a"}]
    await client.extended("fork", {"episode_ids": episodes})
    clock.now += IDLE
    await client.post("/get_patient_record", json=READ)
    client.shell.sweep()

    assert 1 == len(client.shell.sessions)
    assert {"inflight": 0, "sessions": 1} == await client.counts()


# -- the limit ---------------------------------------------------------------------


async def test_a_seed_beyond_the_limit_is_refused(
    idle: Callable[..., Awaitable[Client]], clock: Clock
) -> None:
    """503 with a code; nothing is lost, and a seed of an existing session passes."""
    client, other = await idle(max_sessions=1), await idle()
    await client.seed(key="ipi-7")
    refused = await other.post(
        "/ng-rollout/ipi-8/seed_session", json={"environment": {}}
    )
    metrics = (await client.get("/metrics")).text

    assert (503, "too_many_sessions") == (
        refused.status_code,
        refused.json()["error"]["code"],
    )
    assert 'ipistate_refusals_total{code="too_many_sessions"} 1.0' in metrics
    assert {"inflight": 0, "sessions": 1} == await client.counts()
    await client.seed(key="ipi-7")
    clock.now += IDLE
    await other.seed(key="ipi-8")
    assert not await is_there(client)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("fork", {"count": 2}),
        ("import", {"state": {"schema_version": 1, "environment": {}}}),
    ],
)
async def test_forks_and_imports_count(
    idle: Callable[..., Awaitable[Client]], name: str, body: dict[str, Any]
) -> None:
    """All forks of a call or none."""
    client = await idle(extension=True, max_sessions=2)
    await client.seed()
    if name == "import":
        await client.extended("fork", {"count": 1})
    before = len(client.shell.sessions)
    reply = await client.extended(name, body)

    assert (503, before) == (reply.status_code, len(client.shell.sessions))


async def test_a_native_seed_beyond_the_limit(
    idle: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """It is refused like any other, and repeating the first one still is not."""
    client = await idle(max_sessions=1)

    def native(name: str) -> dict[str, Any]:
        return {
            "resources_session_id": name,
            "episode_id": {"rollout_id": name},
            "task_id": {"taskset": "t", "task_id": "1"},
            "task_data": {"environment": world},
        }

    statuses = [
        (await client.post("/seed_session", json=native(name))).status_code
        for name in ("rs-1", "rs-2", "rs-1")
    ]

    assert [200, 503, 200] == statuses


async def test_seeds_of_live_sessions_at_the_limit(
    idle: Callable[..., Awaitable[Client]], clock: Clock, world: dict[str, Any]
) -> None:
    """Seeding again needs no room, however it is done; a failed seed opens no id."""
    client = await idle(max_sessions=2)

    async def native(name: str, rollout: str) -> int:
        body = {
            "resources_session_id": name,
            "episode_id": {"rollout_id": rollout},
            "task_id": {"taskset": "t", "task_id": "1"},
            "task_data": {"environment": world},
        }
        client.cookies.clear()
        path = f"/ng-rollout/{rollout}/seed_session"
        return (await client.post(path, json=body)).status_code

    await client.seed(key="plain")
    cookies = dict(client.cookies)
    statuses = [await native("rs-1", "a"), await native("rs-2", "b")]
    taken = await native("rs-1", "b")
    client.cookies.update(cookies)
    await client.seed(key="plain")
    clock.now += IDLE
    opened = [await native("rs-2", "c"), await native("rs-1", "b")]

    assert ([200, 503], 409, [200, 200]) == (statuses, taken, opened)
    assert {"inflight": 0, "sessions": 2} == await client.counts()


async def test_b59_memory_is_bounded_without_a_close(
    idle: Callable[..., Awaitable[Client]], clock: Clock
) -> None:
    """1,000 seeds that nobody closes, 100 at a time; later ones go on."""
    client, most = await idle(max_sessions=100, idle_seconds=1.0), 0
    for _ in range(1_000):
        client.cookies.clear()
        await client.seed()
        clock.now += 0.02
        most = max(most, len(client.shell.sessions))

    assert 100 == most
    assert 200 == (await client.post("/get_patient_record", json=READ)).status_code


# -- the timer ---------------------------------------------------------------------


@pytest.mark.parametrize(("idle_seconds", "pause"), [(8.0, 2.0), (1e-9, 0.1)])
async def test_a_served_application_sweeps_by_itself(
    monkeypatch: pytest.MonkeyPatch, idle_seconds: float, pause: float
) -> None:
    """Four times in the period, or ten times a second, for as long as it is served."""
    swept, pauses = [], []
    monkeypatch.setattr(Shell, "sweep", lambda _: swept.append(1))

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > 3:
            await asyncio.Event().wait()

    app = create_app(ServerSettings(idle_seconds=idle_seconds))
    monkeypatch.setattr(asyncio, "sleep", sleep)
    async with app.router.lifespan_context(app):
        for _ in range(10):
            await asyncio.get_running_loop().run_in_executor(None, int)
    monkeypatch.undo()

    assert ([pause] * 4, 3) == (pauses, len(swept))


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
def test_a_time_that_is_none(seconds: float) -> None:
    """A positive number of seconds, or no limit."""
    with pytest.raises(ValueError, match="idle_seconds"):
        ServerSettings(idle_seconds=seconds, checkpoint_token=Secret("t"))


# -- parts -------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["note", "forget", "restart", "pass"]),
            st.sampled_from("abc"),
            st.floats(0, 15),
        )
    )
)
def test_idle_are_those_last_used_too_long_ago(
    steps: list[tuple[str, str, float]],
) -> None:
    """And only if nothing has kept everybody from a use since then."""
    clock = Clock()
    uses, used, since = Uses(IDLE, clock), {}, clock()
    for kind, name, seconds in steps:
        if kind == "note":
            uses.note([name])
            used[name] = clock()
        elif kind == "forget":
            uses.forget([name])
            used.pop(name, None)
        elif kind == "restart":
            uses.restart()
            since = clock()
        else:
            clock.now += seconds
        latest = clock() - IDLE
        expected = {n for n, at in used.items() if max(at, since) <= latest}
        assert expected == set(uses.idle())


def test_uses_that_are_not_watched() -> None:
    """Nothing is ever idle."""
    uses = Uses()
    uses.note(["a"])
    uses.restart()
    uses.forget(["a"])

    assert () == uses.idle()


def test_the_store_makes_room_before_it_refuses() -> None:
    """Only what is new needs room; all of it or none."""
    worlds = dict.fromkeys("abc", Session(Environment.of({})))
    asked: list[str] = []
    sessions = Sessions(
        lambda _: None, lambda _: None, 2, partial(asked.append, "room")
    )
    sessions.start({"a": worlds["a"], "b": worlds["b"]})
    sessions.start({"a": worlds["a"]})
    assert [] == asked

    with pytest.raises(SessionsFullError, match="the limit is 2"):
        sessions.start({"a": worlds["a"], "c": worlds["c"]})

    assert (["room"], False) == (asked, "c" in sessions)
    assert 1 == sessions.sweep(["a", "unknown"])
    for name, hint in (("a", "has been freed"), ("unknown", "has no world")):
        with pytest.raises(NotSeededError, match=hint):
            sessions.require(name, is_new=False)
    sessions.start({"c": worlds["c"]})
