"""Sweeps, requests, forks and checkpoints in any order, against a model of the rules."""

from __future__ import annotations

import asyncio
import json

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from hypothesis import given, settings
from hypothesis import strategies as st

from ipistate.server.live.shell import Shell


if TYPE_CHECKING:
    import httpx

    from starlette.applications import Starlette
    from tests.server.conftest import Client, Wire


IDLE = 10.0
LIMIT = 4
TOKEN = {"authorization": "Bearer a-token"}
WORLD: dict[str, Any] = {"messages": []}


class Clock:
    """A clock that stands until a test moves it."""

    now = 5_000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@attrs.define
class Known:
    """What the model knows of a session that it takes to be alive."""

    used: float
    busy: int = 0


@attrs.define
class Slow:
    """A request whose head has come and whose body has not."""

    kind: str
    name: str
    wire: Wire
    entered: bool


class Race:
    """The server beside its model; names of sessions are those of their episodes."""

    def __init__(
        self,
        app: Starlette,
        shell: Shell,
        clock: Clock,
        client: Client,
        wire: type[Wire],
        settled: Callable[..., Awaitable[None]],
    ) -> None:
        """Begin with no sessions."""
        self.app, self.shell, self.clock = app, shell, clock
        self.client, self.wire, self.settled = client, wire, settled
        self.known: dict[str, Known] = {}
        self.cookies: dict[str, str] = {}
        self.slow: list[Slow] = []
        self.is_open, self.since = True, clock.now
        self.number = 0
        self.checkpoint: str | None = None

    # What happens

    async def seed(self, which: int) -> None:
        """Seed an old session again, or a new one if there is none to choose."""
        names = [*self.known]
        chosen = None if which >= len(names) else names[which]
        if not self.is_open:
            return
        name = chosen or self._new_name()
        headers = {} if chosen is None else {"cookie": self.cookies[name]}
        self.client.cookies.clear()
        reply = await self.client.post(
            f"/ng-rollout/{name}/seed_session",
            json={"environment": WORLD},
            headers=headers,
        )
        if chosen is None and not self._room_for(1):
            assert (503, "too_many_sessions") == (reply.status_code, _code(reply))
            return
        assert 200 == reply.status_code
        ((label, value),) = reply.cookies.items()
        self.cookies[name] = f"{label}={value}"
        self._use(name)

    async def begin(self, kind: str, which: int) -> None:
        """Send a call or a fork whose handler takes its time."""
        if not self.cookies:
            return
        name = [*self.cookies][which % len(self.cookies)]
        path = "/get_inbox" if kind == "call" else "/ipistate/v1/fork"
        given: dict[str, Any] = {"cookie": self.cookies[name], "headers": TOKEN}
        wire = self.wire(self.app, path, None, slow=True, **given)
        await self.settled()
        self.slow.append(Slow(kind, name, wire, self.is_open))
        if self.is_open and name in self.known:
            self.known[name].busy += 1

    async def finish(self, which: int, leaves: bool) -> None:
        """Let a handler go on, or hang up instead."""
        if not self.slow:
            return
        one = self.slow.pop(which % len(self.slow))
        if leaves:
            one.wire.hang_up()
        else:
            births = [self._new_name() for _ in range(1 + which % 2)]
            ids = [{"rollout_id": birth} for birth in births]
            body = {} if one.kind == "call" else {"episode_ids": ids}
            one.wire.give(json.dumps(body).encode())
        if not one.entered and not leaves:
            await self.settled()
            assert one.wire.status is None
            await self.resume()
        await one.wire.task
        if one.entered and one.name in self.known:
            self.known[one.name].busy -= 1
        if leaves:
            if one.entered and one.name in self.known:
                self._use(one.name)
            return
        self._check_answer(one, births)

    def _check_answer(self, one: Slow, births: list[str]) -> None:
        if one.name not in self.known:
            assert 400 == one.wire.status
            return
        if one.kind == "call":
            assert 200 == one.wire.status
        elif not self._room_for(len(births), keep=one.name):
            assert 503 == one.wire.status
        else:
            assert 200 == one.wire.status
            for told in one.wire.document["sessions"]:
                birth = told["episode_id"]["rollout_id"]
                self.cookies[birth] = told["cookie"]
                self._use(birth)
        self._use(one.name)

    async def wait(self, seconds: float) -> None:
        """Let time pass, and sweep."""
        self.clock.now += seconds
        self.shell.sweep()
        self._sweep()

    async def prepare(self) -> None:
        """Close the gate; nobody is inside."""
        if self.is_open and not self.slow:
            self.checkpoint = f"c-{self._new_name()}"
            reply = await self.client.control("prepare", self.checkpoint)
            assert "prepared" == reply.json()["phase"]
            assert len(self.known) == reply.json()["report"]["counts"]["sessions"]
            self.is_open = False

    async def resume(self) -> None:
        """Open the gate; whoever waits is let in."""
        if not self.is_open:
            assert self.checkpoint is not None
            reply = await self.client.control("resume", self.checkpoint)
            assert 200 == reply.status_code
            self.is_open, self.since = True, self.clock.now
            await self.settled()
            for one in self.slow:
                one.entered = True
                if one.name in self.known:
                    self.known[one.name].busy += 1

    # The model

    def _new_name(self) -> str:
        self.number += 1
        return f"r{self.number}"

    def _use(self, name: str) -> None:
        self.known.setdefault(name, Known(0.0)).used = self.clock.now

    def _sweep(self, keep: str | None = None) -> None:
        if not self.is_open:
            return
        latest = self.clock.now - IDLE
        for name, one in [*self.known.items()]:
            is_idle = max(one.used, self.since) <= latest
            if is_idle and not one.busy and name != keep:
                del self.known[name]

    def _room_for(self, count: int, keep: str | None = None) -> bool:
        if len(self.known) + count > LIMIT:
            self._sweep(keep)
        return len(self.known) + count <= LIMIT

    async def check(self) -> None:
        """Compare what is there; what the machine tracks is what the store holds."""
        shell = self.shell
        bound = {shell.episode_of(name) for name in shell.sessions._states}
        assert {*self.known} == {one and one.rollout_id for one in bound}
        counts = await self.client.counts()
        entered = sum(one.entered for one in self.slow)
        assert {"sessions": len(self.known), "inflight": entered} == counts
        assert len(self.known) <= LIMIT


def _code(reply: httpx.Response) -> Any:
    return reply.json()["error"]["code"]


@pytest.fixture(scope="module")
def fresh_race(
    fresh: Callable[..., Client],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> Callable[..., Race]:
    """Return a maker of races, each on a server of its own with its own clock."""

    def make() -> Race:
        clock = Clock()
        client = fresh(steady=clock, max_sessions=LIMIT, idle_seconds=IDLE)
        shell = client.app.state.shell
        return Race(client.app, shell, clock, client, wire, settled)

    return make


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("seed"), st.integers(0, 5)),
        st.tuples(
            st.just("begin"), st.sampled_from(["call", "fork"]), st.integers(0, 5)
        ),
        st.tuples(st.just("finish"), st.integers(0, 5), st.booleans()),
        st.tuples(st.just("wait"), st.sampled_from([1.0, 4.0, 6.0, 10.0])),
        st.tuples(st.just("prepare")),
        st.tuples(st.just("resume")),
    ),
    max_size=25,
)


@settings(deadline=None)
@given(steps=STEPS)
def test_sessions_are_those_of_the_model(
    fresh_race: Callable[..., Race], steps: list[tuple[Any, ...]]
) -> None:
    """Used, busy or frozen ones stay, all others go, and there are never too many."""

    async def run() -> None:
        race = fresh_race()
        for name, *arguments in steps:
            await getattr(race, name)(*arguments)
            await race.check()
        while race.slow:
            await race.finish(0, leaves=True)
        await race.check()

    asyncio.run(asyncio.wait_for(run(), 20))
