"""Rounds in which some servers of a deployment die in the middle of an operation.

Each round is one life. It restores the newest checkpoint that was committed, plays on for
a while, and takes another one; at a random moment of one of these operations a random
part of the servers is killed, and the rest soon after. What is finished stays finished;
when nothing is left, other rollouts begin. The last life is left alone.
"""

from __future__ import annotations

import asyncio
import time

from collections import defaultdict
from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Final

import attrs

from ipistate.coordination import CoordinationError
from ipistate.demo.deployed import DeployedResult, DeployedRollout, episodes_of, site
from ipistate.demo.deployment_report import (
    DeploymentRound,
    DeploymentRoundsReport,
    outcome_of,
)
from ipistate.demo.deployment_story import SECONDS, deployed_rollouts, uninterrupted
from ipistate.rollouts import deadline


if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from ipistate.demo.deployed import DeploymentLife, DeploymentSite, Topology
    from ipistate.demo.play import DemoWatcher

OPERATIONS_KILLED: Final = ("prepare", "commit", "resume", "restore", "reopen")
"""What is killed in turn; ``reopen`` is the resume after a restore."""

_LONGER: Final = 1.3
"""Moments reach beyond what an operation takes, to meet its end as well."""
_USUAL: Final = 0.01
"""Seconds that an operation takes until one was measured."""
_PLAYED: Final = 1.0
"""Calls for each rollout that a life makes before its checkpoint."""


async def run_deployment_rounds(  # noqa: PLR0913 - one parameter for each choice
    rollouts: int,
    root: Path,
    watch: DemoWatcher,
    topology: Topology,
    *,
    count: int,
    seed: int,
) -> DeploymentRoundsReport:
    """Kill servers of a deployment so often, and compare what it comes to.

    Args:
        rollouts: How many are played at the same time.
        root: Where files go.
        watch: Is told how it gets on.
        topology: Who drives the agent.
        count: How many kills.
        seed: Chooses moments and victims.

    Raises:
        IpiStateError: A server did not start, or one that lives refused an operation.
    """
    began = time.perf_counter()
    watch.stage("without interruption")
    first = deployed_rollouts(rollouts)
    expected, _ = await uninterrupted(first, root / "uninterrupted", topology)
    place = site(root / "killed", topology, SECONDS)
    rounds = _DeploymentRounds(place, rollouts, Random(seed))  # noqa: S311 - no secret
    async with place.model():
        for number in range(count):
            operation = OPERATIONS_KILLED[number % len(OPERATIONS_KILLED)]
            watch.stage(f"round {number + 1}: {operation}")
            await rounds.play(number + 1, operation)
            watch.advance()
        watch.stage("play on")
        left_over = await rounds.finish()
        calls = await place.calls()
    by_row = {one.row: expected[one.name] for one in first}
    return DeploymentRoundsReport(
        topology=topology,
        seed=seed,
        rounds=tuple(rounds.told),
        outcomes=tuple(
            outcome_of(one.name, rounds.results[one.name], by_row[one.row], ())
            for one in rounds.begun
        ),
        calls=calls,
        left_over=left_over,
        seconds=time.perf_counter() - began,
    )


@attrs.frozen
class _Saved:
    """A checkpoint that all participants have committed."""

    name: str
    attempts: Mapping[str, int]


@attrs.define
class _Strike:
    """What is to be killed in a life, and what has become of it."""

    operation: str
    part: float
    victims: tuple[str, ...]
    moment: float = 0.0
    had_ended: bool = False


class _Struck(Exception):
    """The kill of this life has happened."""


@attrs.define
class _DeploymentRounds:
    place: DeploymentSite
    size: int
    random: Random
    begun: list[DeployedRollout] = attrs.field(
        init=False, factory=list["DeployedRollout"]
    )
    results: dict[str, list[DeployedResult]] = attrs.field(
        init=False, factory=lambda: defaultdict[str, "list[DeployedResult]"](list)
    )
    told: list[DeploymentRound] = attrs.field(
        init=False, factory=list["DeploymentRound"]
    )
    attempts: dict[str, int] = attrs.field(init=False, factory=dict[str, int])
    """Of every rollout without a result, the attempt that it is played as."""
    saved: _Saved | None = attrs.field(init=False, default=None)
    usual: dict[str, float] = attrs.field(init=False, factory=dict[str, float])
    names: int = attrs.field(init=False, default=0)

    async def play(self, number: int, operation: str) -> None:
        """Live once, until the strike."""
        if not self._unfinished():
            self._begin(number)
        if self._going_on() is None and operation in {"restore", "reopen"}:
            operation = "commit"
        async with self.place.life() as life:
            names = [*life.processes.names]
            victims = self.random.sample(names, self.random.randint(1, len(names)))
            strike = _Strike(operation, self.random.random(), tuple(victims))
            restored = len(self._going_on() or {})
            playing: list[asyncio.Task[None]] = []
            try:
                await self._restore(life, strike)
                in_flight = len(self._unfinished())
                playing += self._start(life)
                await self._some_calls(playing)
                in_flight = len(self._unfinished())
                await self._checkpoint(life, strike)
            except _Struck:
                in_flight = len(self._unfinished())
            await life.processes.kill()
            await asyncio.gather(*playing)
        self._lose_attempts()
        self.told.append(
            DeploymentRound(
                number=number,
                operation=operation,
                killed=strike.victims,
                milliseconds=strike.moment * 1_000,
                had_ended=strike.had_ended,
                in_flight=in_flight,
                restored=restored,
            )
        )

    async def finish(self) -> dict[str, int]:
        """Play what is left in a life that nobody ends, and return what it leaves over."""
        strike = _Strike("", 0.0, ())
        async with self.place.life() as life:
            await self._restore(life, strike)
            await asyncio.gather(*self._start(life))
            return await life.left_over()

    def _begin(self, number: int) -> None:
        self.saved = None
        fresh = deployed_rollouts(self.size, f"g{number}r")
        self.begun += fresh
        self.attempts = {one.name: 0 for one in fresh}

    def _unfinished(self) -> list[DeployedRollout]:
        return [one for one in self.begun if not self.results[one.name]]

    def _going_on(self) -> dict[str, int] | None:
        """Return the attempts that the newest checkpoint has of what is unfinished."""
        if self.saved is None:
            return None
        held = self.saved.attempts
        return {one.name: held[one.name] for one in self._unfinished()}

    def _lose_attempts(self) -> None:
        # Without a checkpoint they start over, and under another number: what a dead
        # process has left behind must not become theirs.
        if self.saved is None:
            self.attempts = {name: n + 1 for name, n in self.attempts.items()}

    async def _restore(self, life: DeploymentLife, strike: _Strike) -> None:
        held = self._going_on()
        if not held or self.saved is None:
            return
        name = self._name("restore")
        directory = self.place.root / self.saved.name
        restoring = life.coordinator.restore(
            name, deadline(), directory, episodes_of(held)
        )
        await self._struck(life, strike, "restore", restoring)
        reopening = life.coordinator.resume(name, deadline())
        await self._struck(life, strike, "reopen", reopening)
        self.attempts = {one: attempt + 1 for one, attempt in held.items()}

    async def _checkpoint(self, life: DeploymentLife, strike: _Strike) -> None:
        name = self._name("checkpoint")
        preparing = life.coordinator.prepare(name, deadline())
        prepared = await self._struck(life, strike, "prepare", preparing)
        if not prepared.ready:
            raise CoordinationError("not_prepared", f"{name}: not prepared in time")
        scope = {one.name: self.attempts[one.name] for one in self._unfinished()}
        directory = self.place.root / name
        saved = _Saved(name, scope)

        async def commit() -> None:
            await life.coordinator.commit(
                name, deadline(), directory, episodes_of(scope)
            )
            self.saved = saved

        await self._struck(life, strike, "commit", commit())
        resuming = life.coordinator.resume(name, deadline())
        await self._struck(life, strike, "resume", resuming)

    async def _struck(
        self,
        life: DeploymentLife,
        strike: _Strike,
        operation: str,
        work: Coroutine[Any, Any, Any],
    ) -> Any:
        """Do some work; if it is the one to be struck, kill in the middle of it."""
        began, task = time.perf_counter(), asyncio.create_task(work)
        if operation != strike.operation:
            done = await task
            self.usual[operation] = time.perf_counter() - began
            return done
        usual = self.usual.get(operation, _USUAL)
        await asyncio.wait({task}, timeout=strike.part * usual * _LONGER)
        strike.moment, strike.had_ended = time.perf_counter() - began, task.done()
        await life.processes.kill(strike.victims)
        await asyncio.gather(task, return_exceptions=True)
        raise _Struck

    def _start(self, life: DeploymentLife) -> list[asyncio.Task[None]]:
        async def one(rollout: DeployedRollout, attempt: int) -> None:
            result = await life.play(rollout, attempt)
            if result is not None:
                self.results[rollout.name].append(result)

        return [
            asyncio.create_task(one(rollout, self.attempts[rollout.name]))
            for rollout in self._unfinished()
        ]

    async def _some_calls(self, playing: list[asyncio.Task[None]]) -> None:
        before, wanted = await self.place.calls("answered"), self.size * _PLAYED
        while await self.place.calls("answered") - before < wanted:
            _, left = await asyncio.wait(playing, timeout=0.02)
            if not left:
                return

    def _name(self, what: str) -> str:
        self.names += 1
        return f"{what}-{self.names}"
