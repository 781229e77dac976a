"""A whole deployment dies twice, and every rollout ends as if nothing had happened.

All are played at the same time. In the middle of it a checkpoint is taken, and every
server is killed. Fresh ones restore it and take a checkpoint again before anything goes
on; they are killed as well. The third ones play on.
"""

from __future__ import annotations

import asyncio
import time

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import attrs

from ipistate.agents import AgentStateCodec
from ipistate.coordination import CoordinationError
from ipistate.demo.deployed import (
    AGENT,
    MODEL,
    DeployedRollout,
    DeploymentLife,
    DeploymentSite,
    episodes_of,
    played,
    site,
)
from ipistate.demo.deployment_report import DeploymentReport, outcome_of
from ipistate.kernel import freeze
from ipistate.protocol import RUN_BOUNDARIES, AgentSessionRecords
from ipistate.rollouts import deadline
from ipistate.storage import CheckpointDirectory


if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence
    from pathlib import Path

    from ipistate.demo.deployed import DeployedResult, Topology
    from ipistate.demo.play import DemoWatcher

FIRST_ID: Final = "step-1"
SECOND_ID: Final = "step-2"
SECONDS: Final = 0.3
"""The longest reply of the model: the shortest of them are over before a checkpoint."""

_STATES: Final = AgentStateCodec()


def deployed_rollouts(count: int, prefix: str = "r") -> tuple[DeployedRollout, ...]:
    """Name so many rollouts of the built-in rows, in turn."""
    return tuple(DeployedRollout(f"{prefix}{n}", n) for n in range(count))


async def run_deployment(
    rollouts: Sequence[DeployedRollout],
    root: Path,
    watch: DemoWatcher,
    topology: Topology,
) -> DeploymentReport:
    """Play rollouts in two deployments, kill one of them twice, and compare.

    Raises:
        IpiStateError: A server did not start, or refused a control operation.
    """
    began = time.perf_counter()
    watch.stage("without interruption")
    expected, calls = await uninterrupted(rollouts, root / "uninterrupted", topology)
    place = site(root / "killed", topology, SECONDS)
    async with place.model():
        told = await _Story(place, rollouts, watch, calls).tell()
    outcomes = tuple(
        outcome_of(
            one.name,
            told.results[one.name],
            expected[one.name],
            told.recorded.get(one.name),
        )
        for one in rollouts
    )
    seconds = time.perf_counter() - began
    report = DeploymentReport(
        topology=topology,
        outcomes=outcomes,
        calls_uninterrupted=calls,
        seconds=seconds,
        **told.found,
    )
    watch.stage("compare")
    return report


async def uninterrupted(
    rollouts: Sequence[DeployedRollout], root: Path, topology: Topology
) -> tuple[dict[str, DeployedResult | None], int]:
    """Play rollouts in a deployment that lives; return results and calls of the model."""
    place = site(root, topology, SECONDS)
    async with place.model(), place.life() as life:
        return await played(life, rollouts, {}), await place.calls()


@attrs.define
class _Outcome:
    results: Mapping[str, list[DeployedResult]]
    recorded: Mapping[str, tuple[Any, ...]]
    found: dict[str, Any]


@attrs.define
class _Story:
    place: DeploymentSite
    rollouts: Sequence[DeployedRollout]
    watch: DemoWatcher
    calls: int
    """That the whole takes; the checkpoint is in the middle of them."""
    results: dict[str, list[DeployedResult]] = attrs.field(
        init=False, factory=lambda: defaultdict[str, "list[DeployedResult]"](list)
    )
    milliseconds: dict[str, float] = attrs.field(init=False, factory=dict[str, float])
    found: dict[str, Any] = attrs.field(init=False, factory=dict[str, Any])

    async def tell(self) -> _Outcome:
        self.watch.stage("play")
        async with self.place.life() as life:
            first = await self._first_life(life)
        self.watch.stage(
            "kill -9 of all, restore, checkpoint before anything continues"
        )
        async with self.place.life() as life:
            restored = await self._restored(life, FIRST_ID, first)
            second = dict.fromkeys(first, 1)
            again = await self._checkpoint(life, SECOND_ID, second)
            await life.processes.kill()
        self.watch.stage("kill -9 of all again, restore, play on")
        async with self.place.life() as life:
            third = await self._restored(life, SECOND_ID, second)
            await self._play_on(life, dict.fromkeys(first, 2))
            self.found["left_over"] = await life.left_over()
        self.found |= {
            "committed": (self.found["committed"], again),
            "restored": (restored, third),
            "calls": await self.place.calls(),
            "milliseconds": self.milliseconds,
        }
        recorded = _recorded(self.place.root / FIRST_ID)
        return _Outcome(
            self.results, {n: recorded.get(n, ()) for n in first}, self.found
        )

    async def _first_life(self, life: DeploymentLife) -> dict[str, int]:
        playing = [
            asyncio.create_task(self._one(life, one, 0)) for one in self.rollouts
        ]
        while await self.place.calls("answered") < self.calls / 2:
            await asyncio.wait(playing, timeout=0.02)
        await self._prepared(life, FIRST_ID)
        attempts = {one.name: 0 for one in self.rollouts if not self.results[one.name]}
        self.found["in_flight"] = len(attempts)
        self.found["undelivered"] = await life.count(MODEL, "inflight")
        self.found["restarts"] = len((await life.coordinator.status()).restarts)
        self.found["committed"] = await self._committed(life, FIRST_ID, attempts)
        await life.processes.kill()
        await asyncio.gather(*playing)
        return attempts

    async def _one(
        self, life: DeploymentLife, rollout: DeployedRollout, attempt: int
    ) -> None:
        result = await life.play(rollout, attempt)
        if result is not None:
            self.results[rollout.name].append(result)
            self.watch.advance()

    async def _play_on(self, life: DeploymentLife, attempts: Mapping[str, int]) -> None:
        going_on = [one for one in self.rollouts if one.name in attempts]
        await asyncio.gather(
            *(self._one(life, one, attempts[one.name]) for one in going_on)
        )

    async def _checkpoint(
        self, life: DeploymentLife, name: str, attempts: Mapping[str, int]
    ) -> int:
        await self._prepared(life, name)
        return await self._committed(life, name, attempts)

    async def _prepared(self, life: DeploymentLife, name: str) -> None:
        prepared = await self._timed(
            f"prepare {name}", life.coordinator.prepare(name, deadline())
        )
        if not prepared.ready:
            blocked = ", ".join(map(str, prepared.blockers[:3]))
            raise CoordinationError("not_prepared", f"{name}: blocked by {blocked}")

    async def _committed(
        self, life: DeploymentLife, name: str, attempts: Mapping[str, int]
    ) -> int:
        directory = self.place.root / name
        done = await self._timed(
            f"commit {name}",
            life.coordinator.commit(name, deadline(), directory, episodes_of(attempts)),
        )
        (agent,) = (one for one in done.answers if one.participant.name == AGENT)
        return len(agent.reply.episode_ids)

    async def _restored(
        self, life: DeploymentLife, name: str, attempts: Mapping[str, int]
    ) -> int:
        restore, directory = f"restore-{name}", self.place.root / name
        done = await self._timed(
            f"restore {name}",
            life.coordinator.restore(
                restore, deadline(), directory, episodes_of(attempts)
            ),
        )
        await life.coordinator.resume(restore, deadline())
        (agent,) = (one for one in done.answers if one.participant.name == AGENT)
        return len(agent.reply.restored)

    async def _timed(self, what: str, work: Awaitable[Any]) -> Any:
        began = time.perf_counter()
        done = await work
        self.milliseconds[what] = (time.perf_counter() - began) * 1_000
        return done


def _recorded(directory: Path) -> dict[str, tuple[Any, ...]]:
    """Return what the agent's checkpoint has of each trajectory, by rollout."""
    records = CheckpointDirectory(directory, AGENT, AGENT).read_records(
        AgentSessionRecords(RUN_BOUNDARIES)
    )
    found: dict[str, tuple[Any, ...]] = {}
    for record in records.records:
        boundary = record.boundary
        state = None if boundary is None else _STATES.decode(boundary, freeze)
        output = () if state is None else state.conversation.output
        found[record.episode_id.rollout_id] = tuple(output)
    return found
