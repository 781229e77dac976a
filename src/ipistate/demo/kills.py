"""Rounds in which the server dies at a random moment of a commit or a restore.

After each kill a fresh process restores the newest complete checkpoint, and every rollout
is played on from there and compared with the same one without interruption.
"""

from __future__ import annotations

import asyncio
import time

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from ipistate.coordination import CoordinationError
from ipistate.demo.play import continuing, play_all, play_to_cut, play_until
from ipistate.demo.report import compare_all
from ipistate.demo.rounds import (
    FIRST,
    OPERATIONS,
    SECOND,
    KilledOperation,
    KillRound,
    RoundsReport,
    doubled,
    lost,
)
from ipistate.demo.run import without_interruption
from ipistate.demo.workplace import CONCURRENCY, INSTANCE, exports_in
from ipistate.errors import CheckpointError
from ipistate.storage import CheckpointDirectory


if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence
    from pathlib import Path

    from ipistate.demo.plan import DemoRollout
    from ipistate.demo.play import PlayStep, Recording
    from ipistate.demo.run import DemoWatcher
    from ipistate.demo.workplace import Served, Workplace

Recordings: TypeAlias = "Mapping[str, Mapping[str, Recording]]"
"""What was recorded up to each checkpoint, by rollout."""

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
    played = [rollout for rollout in rollouts if rollout.cut is not None]
    watch.stage("without interruption")
    beside = await without_interruption(played, place, watch)
    play = _Play(played, place, watch, beside, dict.fromkeys(OPERATIONS, 0.0))
    rounds: list[KillRound] = []
    for number in range(count):
        operation = OPERATIONS[number % len(OPERATIONS)]
        watch.stage(f"round {number + 1}: {operation}")
        rounds.append(await play.round(number + 1, operation, random.random()))
    seconds = time.perf_counter() - began
    return RoundsReport(rounds=tuple(rounds), seed=seed, seconds=seconds)


@attrs.frozen
class _Killed:
    moment: float
    answered: bool


@attrs.frozen
class _Play:
    rollouts: Sequence[DemoRollout]
    place: Workplace
    watch: DemoWatcher
    beside: Mapping[str, Recording]
    seconds: dict[KilledOperation, float]
    """What each operation took the last time that it was left alone."""

    async def round(
        self, number: int, operation: KilledOperation, part: float
    ) -> KillRound:
        directory = self.place.checkpoint(f"round-{number}")
        if operation == "commit":
            at, killed = await self._through_commit(directory, part)
        else:
            at, killed = await self._through_restore(directory, part)
        newest = _newest(directory)
        async with self.place.served(f"{directory.name}-fresh") as server:
            restored = await self._restore(server, directory / newest)
            held = await server.control.sessions()
            after = await self._play(continuing(server.connection, at[newest]))
            left = await server.control.sessions()
        return KillRound(
            number=number,
            operation=operation,
            moment=killed.moment,
            answered=killed.answered,
            newest=newest,
            rollouts=len(self.rollouts),
            lost=lost(self.rollouts, restored),
            doubled=doubled(restored, held),
            different=self._different(at[newest], after, directory / newest),
            sessions_left=left,
        )

    async def _through_commit(
        self, directory: Path, part: float
    ) -> tuple[Recordings, _Killed]:
        async with self.place.served(f"{directory.name}-first") as server:
            at = await self._to_two_checkpoints(server, directory)
            commit = self._commit(server, directory, SECOND)
            return at, await self._kill_during(server, "commit", part, commit)

    async def _through_restore(
        self, directory: Path, part: float
    ) -> tuple[Recordings, _Killed]:
        async with self.place.served(f"{directory.name}-first") as server:
            at = await self._to_two_checkpoints(server, directory)
            await self._commit(server, directory, SECOND)
            await server.process.kill()
        async with self.place.served(f"{directory.name}-killed") as server:
            restore = self._restore(server, directory / SECOND)
            return at, await self._kill_during(server, "restore", part, restore)

    async def _to_two_checkpoints(self, server: Served, directory: Path) -> Recordings:
        first = await self._play(partial(play_to_cut, server.connection))
        await server.control.freeze(FIRST)
        await self._commit(server, directory, FIRST)
        await server.control.resume(FIRST)

        async def one_more(rollout: DemoRollout) -> Recording:
            held = first[rollout.episode.rollout_id]
            end = len(held.replies) + 1
            return await play_until(server.connection, rollout, held, end)

        second = await self._play(one_more)
        await server.control.freeze(SECOND)
        return {FIRST: first, SECOND: second}

    async def _play(self, step: PlayStep) -> Mapping[str, Recording]:
        return await play_all(self.rollouts, step, CONCURRENCY, self.watch.advance)

    async def _commit(self, server: Served, directory: Path, name: str) -> None:
        began = time.perf_counter()
        scope = [rollout.episode for rollout in self.rollouts]
        await server.control.commit(name, directory / name, scope)
        self.seconds["commit"] = time.perf_counter() - began

    async def _restore(self, server: Served, checkpoint: Path) -> tuple[str, ...]:
        began = time.perf_counter()
        scope = [rollout.episode for rollout in self.rollouts]
        done = await server.control.restore("restore", checkpoint, scope)
        self.seconds["restore"] = time.perf_counter() - began
        return done.restored

    async def _kill_during(
        self,
        server: Served,
        operation: KilledOperation,
        part: float,
        work: Coroutine[Any, Any, object],
    ) -> _Killed:
        # Until a restore has been timed, a commit's time stands for it.
        usual = self.seconds[operation] or self.seconds["commit"]
        began, task = time.perf_counter(), asyncio.create_task(work)
        await asyncio.wait({task}, timeout=part * usual * _LONGER)
        moment = time.perf_counter() - began
        await server.process.kill()
        try:
            await task
        except CoordinationError:
            return _Killed(moment, answered=False)
        return _Killed(moment, answered=True)

    def _different(
        self,
        at: Mapping[str, Recording],
        after: Mapping[str, Recording],
        checkpoint: Path,
    ) -> tuple[str, ...]:
        cut = [
            attrs.evolve(rollout, cut=len(at[rollout.episode.rollout_id].replies))
            for rollout in self.rollouts
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
