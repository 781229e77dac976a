"""The demo from start to end: play, checkpoint, kill, restore, play on, compare.

The full one goes through it twice: what was restored is checkpointed again before any of
it goes on, that server is killed as well, and some of the rollouts are retired.
"""

from __future__ import annotations

import asyncio
import time

from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from ipistate.demo.outcome import compare_all
from ipistate.demo.plan import unfinished
from ipistate.demo.play import play_all
from ipistate.demo.report import Crash, DemoReport, FullReport
from ipistate.demo.retirement import retire_and_start_over
from ipistate.demo.workplace import exports_in
from ipistate.kernel import unstructure
from ipistate.rollouts import freeze


if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence
    from pathlib import Path

    from ipistate.coordination import CommitReply
    from ipistate.demo.plan import DemoRollout
    from ipistate.demo.play import DemoWatcher, Recordings
    from ipistate.demo.workplace import DemoServer, SessionExport, Workplace
    from ipistate.protocol import EpisodeId

L = TypeVar("L")
R = TypeVar("R")
Report = TypeVar("Report", bound=DemoReport)

CHECKPOINT: Final = "checkpoint"
"""Directory of the checkpoint; the full demo has two, named by their ids."""
_FIRST: Final = "step-1"
_SECOND: Final = "step-2"
_RETIRED_OF: Final = 10
"""One of so many rollouts at the checkpoint is retired, and at least one."""


async def run(
    rollouts: Sequence[DemoRollout], place: Workplace, watch: DemoWatcher
) -> DemoReport:
    """Play the rollouts twice, once through a crash, and compare.

    Raises:
        IpiStateError: A server did not start, or refused a control operation.
    """
    directory = place.root / CHECKPOINT
    crashed = _through_crash(rollouts, place, watch, directory)
    return await _compared(rollouts, place, watch, crashed, directory)


async def run_full(
    rollouts: Sequence[DemoRollout], place: Workplace, watch: DemoWatcher
) -> FullReport:
    """Play the rollouts twice, once through two crashes, and compare.

    Raises:
        IpiStateError: A server did not start, or refused a control operation.
    """
    crashed = _through_two_crashes(rollouts, place, watch)
    return await _compared(rollouts, place, watch, crashed, place.root / _FIRST)


async def without_interruption(
    rollouts: Sequence[DemoRollout], place: Workplace, watch: DemoWatcher
) -> Recordings:
    """Play every rollout on a server that lives to the end."""
    async with place.served("uninterrupted") as server:
        return await play_all(server.channel, rollouts, watch)


async def _compared(
    rollouts: Sequence[DemoRollout],
    place: Workplace,
    watch: DemoWatcher,
    crashed: Coroutine[Any, Any, tuple[Recordings, Report]],
    directory: Path,
) -> Report:
    began = time.perf_counter()
    uninterrupted = without_interruption(rollouts, place, watch)
    (recordings, report), beside = await _both(crashed, uninterrupted)
    watch.stage("compare")
    place.keep_rows(recordings[one.episode.rollout_id] for one in rollouts)
    outcomes = compare_all(rollouts, recordings, beside, exports_in(directory))
    seconds = time.perf_counter() - began
    return attrs.evolve(report, outcomes=outcomes, seconds=seconds)


async def _both(
    left: Coroutine[Any, Any, L], right: Coroutine[Any, Any, R]
) -> tuple[L, R]:
    # Unlike gather, a group waits for the clean-up of both when one of them fails.
    try:
        async with asyncio.TaskGroup() as group:
            tasks = group.create_task(left), group.create_task(right)
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return tasks[0].result(), tasks[1].result()


async def _through_crash(
    rollouts: Sequence[DemoRollout],
    place: Workplace,
    watch: DemoWatcher,
    directory: Path,
) -> tuple[Recordings, DemoReport]:
    async with place.served("first") as server:
        before, crash = await _to_the_crash(server, rollouts, watch, directory)
    async with place.served("fresh") as server:
        watch.stage("restore")
        crash, going_on = await _restored(
            server, crash, directory, unfinished(rollouts)
        )
        watch.stage("play on")
        after = await play_all(server.channel, going_on, watch, before=before)
        report = DemoReport(
            crashes=(crash,),
            fresh_pid=server.process.pid,
            sessions_left=await server.sessions(),
        )
    return {**before, **after}, report


async def _through_two_crashes(
    rollouts: Sequence[DemoRollout], place: Workplace, watch: DemoWatcher
) -> tuple[Recordings, FullReport]:
    first, second = place.root / _FIRST, place.root / _SECOND
    async with place.served("first") as server:
        before, crash = await _to_the_crash(server, rollouts, watch, first)
    async with place.served("second") as server:
        watch.stage("restore")
        crash, held = await _restored(server, crash, first, unfinished(rollouts))
        watch.stage("checkpoint before anything continues")
        committed = await _checkpoint(server, _SECOND, second, held)
        watch.stage("kill -9 again")
        again = await _killed(server, committed)
    async with place.served("third") as server:
        watch.stage("restore again")
        again, held = await _restored(server, again, second, held)
        watch.stage("play on, retire some")
        count = max(1, len(held) // _RETIRED_OF)
        going_on = held[count:]
        after = await play_all(server.channel, going_on, watch, before=before)
        retired, anew = await retire_and_start_over(server, held[:count], before, watch)
        report = FullReport(
            crashes=(crash, again),
            fresh_pid=server.process.pid,
            sessions_left=await server.sessions(),
            carried=_carried(exports_in(first), exports_in(second)),
            retired=retired,
        )
    return {**before, **after, **anew}, report


async def _to_the_crash(
    server: DemoServer,
    rollouts: Sequence[DemoRollout],
    watch: DemoWatcher,
    directory: Path,
) -> tuple[Recordings, Crash]:
    watch.stage("play")
    ends = {one.episode.rollout_id: one.cut for one in rollouts}
    before = await play_all(server.channel, rollouts, watch, ends=ends)
    watch.stage("checkpoint")
    committed = await _checkpoint(server, _FIRST, directory, unfinished(rollouts))
    watch.stage("kill -9")
    return before, await _killed(server, committed)


async def _checkpoint(
    server: DemoServer,
    checkpoint_id: str,
    directory: Path,
    rollouts: Sequence[DemoRollout],
) -> CommitReply:
    # The server is not resumed: it dies as it was when the files were complete.
    await freeze(server.coordinator, checkpoint_id)
    episodes = [one.episode for one in rollouts]
    return await server.commit(checkpoint_id, directory, episodes)


async def _killed(server: DemoServer, committed: CommitReply) -> Crash:
    return Crash(
        pid=server.process.pid,
        status=await server.process.kill(),
        manifest=unstructure(committed.manifest),
        committed=committed.episode_ids,
    )


async def _restored(
    server: DemoServer, crash: Crash, directory: Path, rollouts: Sequence[DemoRollout]
) -> tuple[Crash, Sequence[DemoRollout]]:
    episodes = [one.episode for one in rollouts]
    keys = await server.restore(f"restore-{directory.name}", directory, episodes)
    done = attrs.evolve(crash, restored=keys, sessions=await server.sessions())
    return done, [one.next_attempt for one in rollouts]


def _carried(
    first: Mapping[EpisodeId, SessionExport], second: Mapping[EpisodeId, SessionExport]
) -> int:
    later = {
        episode.next_attempt: export.to_json() for episode, export in first.items()
    }
    return sum(export.to_json() == later.get(e) for e, export in second.items())
