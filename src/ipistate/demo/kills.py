"""Rounds in which the server dies at a random moment of a commit or a restore.

After each kill a fresh process restores the newest complete checkpoint, and every rollout
is played on from there and compared with the same one without interruption.
"""

from __future__ import annotations

import asyncio
import time

from random import Random
from typing import TYPE_CHECKING, Any, Final

import attrs

from ipistate.coordination import CoordinationError
from ipistate.demo.outcome import compare_all
from ipistate.demo.plan import unfinished
from ipistate.demo.play import play_all
from ipistate.demo.report import (
    FIRST,
    OPERATIONS,
    SECOND,
    KilledOperation,
    KillRound,
    RoundsReport,
    doubled,
    lost,
)
from ipistate.demo.story import without_interruption
from ipistate.demo.workplace import INSTANCE, exports_in
from ipistate.errors import CheckpointError
from ipistate.rollouts import deadline, freeze
from ipistate.storage import CheckpointDirectory


if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from pathlib import Path

    from ipistate.demo.plan import DemoRollout
    from ipistate.demo.play import DemoWatcher, Recordings
    from ipistate.demo.workplace import DemoServer, Workplace

_LONGER: Final = 1.2
"""Moments reach beyond what the operation takes, to meet its end as well."""


async def run_rounds(
    rollouts: Sequence[DemoRollout],
    place: Workplace,
    watch: DemoWatcher,
    *,
    count: int,
    seed: int,
) -> RoundsReport:
    """Kill a server ``count`` times, in turn during a commit and during a restore.

    Only rollouts with a cut take part.

    Args:
        rollouts: What is played in every round.
        place: Where the servers run.
        watch: Is told how it gets on.
        count: How many rounds.
        seed: Chooses the moments, as parts of what the operations take here.

    Raises:
        IpiStateError: A server did not start, or refused a control operation.
    """
    began, random = time.perf_counter(), Random(seed)  # noqa: S311 - no secret
    played = unfinished(rollouts)
    watch.stage("without interruption")
    beside = await without_interruption(played, place, watch)
    rounds = _Rounds(played, place, watch, beside)
    told: list[KillRound] = []
    for number in range(count):
        operation = OPERATIONS[number % len(OPERATIONS)]
        watch.stage(f"round {number + 1}: {operation}")
        told.append(await rounds.play(number + 1, operation, random.random()))
    seconds = time.perf_counter() - began
    return RoundsReport(rounds=tuple(told), seed=seed, seconds=seconds)


@attrs.frozen
class _Rounds:
    rollouts: Sequence[DemoRollout]
    place: Workplace
    watch: DemoWatcher
    beside: Recordings
    seconds: dict[KilledOperation, float] = attrs.field(
        factory=lambda: dict.fromkeys(OPERATIONS, 0.0), init=False
    )
    """What each operation took the last time that it was left alone."""

    async def play(
        self, number: int, operation: KilledOperation, part: float
    ) -> KillRound:
        directory = self.place.root / f"round-{number}"
        async with self.place.served(f"{directory.name}-first") as server:
            at = await self._to_two_checkpoints(server, directory)
            commit = self._commit(server, directory, SECOND)
            if operation == "commit":
                moment, answered = await self._kill_during(
                    server, "commit", part, commit
                )
            else:
                await commit
                await server.process.kill()
                moment, answered = await self._kill_restore(directory, part)
        newest = _newest(directory)
        before, going_on = at[newest], [one.next_attempt for one in self.rollouts]
        async with self.place.served(f"{directory.name}-fresh") as server:
            restored = await self._restore(server, directory / newest)
            held = await server.sessions()
            after = await play_all(server.channel, going_on, self.watch, before=before)
            left = await server.sessions()
        return KillRound(
            number=number,
            operation=operation,
            moment=moment,
            answered=answered,
            newest=newest,
            rollouts=len(self.rollouts),
            lost=lost(self.rollouts, restored),
            doubled=doubled(restored, held),
            different=self._different(before, after, directory / newest),
            sessions_left=left,
        )

    async def _to_two_checkpoints(
        self, server: DemoServer, directory: Path
    ) -> dict[str, Recordings]:
        channel, watch = server.channel, self.watch
        ends = {one.episode.rollout_id: one.cut for one in self.rollouts}
        first = await play_all(channel, self.rollouts, watch, ends=ends)
        await freeze(server.coordinator, FIRST)
        await self._commit(server, directory, FIRST)
        await server.coordinator.resume(FIRST, deadline())
        later = {name: one.calls + 1 for name, one in first.items()}
        second = await play_all(channel, self.rollouts, watch, before=first, ends=later)
        await freeze(server.coordinator, SECOND)
        return {FIRST: first, SECOND: second}

    async def _kill_restore(self, directory: Path, part: float) -> tuple[float, bool]:
        async with self.place.served(f"{directory.name}-killed") as server:
            restore = self._restore(server, directory / SECOND)
            return await self._kill_during(server, "restore", part, restore)

    async def _commit(self, server: DemoServer, directory: Path, name: str) -> None:
        began = time.perf_counter()
        episodes = [one.episode for one in self.rollouts]
        await server.commit(name, directory / name, episodes)
        self.seconds["commit"] = time.perf_counter() - began

    async def _restore(self, server: DemoServer, checkpoint: Path) -> tuple[str, ...]:
        began = time.perf_counter()
        episodes = [one.episode for one in self.rollouts]
        restored = await server.restore("restore", checkpoint, episodes)
        self.seconds["restore"] = time.perf_counter() - began
        return restored

    async def _kill_during(
        self,
        server: DemoServer,
        operation: KilledOperation,
        part: float,
        work: Coroutine[Any, Any, object],
    ) -> tuple[float, bool]:
        """Return when the server was killed, and whether it had answered by then."""
        # Until a restore has been timed, a commit's time stands for it.
        usual = self.seconds[operation] or self.seconds["commit"]
        began, task = time.perf_counter(), asyncio.create_task(work)
        await asyncio.wait({task}, timeout=part * usual * _LONGER)
        moment = time.perf_counter() - began
        await server.process.kill()
        try:
            await task
        except CoordinationError:
            return moment, False
        return moment, True

    def _different(
        self, before: Recordings, after: Recordings, checkpoint: Path
    ) -> tuple[str, ...]:
        cut = [
            attrs.evolve(one, cut=before[one.episode.rollout_id].calls)
            for one in self.rollouts
        ]
        outcomes = compare_all(cut, after, self.beside, exports_in(checkpoint))
        return tuple(
            f"{one.rollout_id}: {one.difference}"
            for one in outcomes
            if not one.identical
        )


def _newest(directory: Path) -> str:
    try:
        CheckpointDirectory(directory / SECOND, INSTANCE).read_manifest()
    except CheckpointError:
        return FIRST
    return SECOND
