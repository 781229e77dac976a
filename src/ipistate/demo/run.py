"""The demo from start to end: play, checkpoint, kill, restore, play on, compare."""

from __future__ import annotations

import asyncio
import time

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

import attrs

from ipistate.demo.play import Recording, continuing, play, play_all, play_to_cut
from ipistate.demo.report import DemoReport, Evidence, compare_all
from ipistate.demo.trace import verify_request
from ipistate.demo.workplace import CONCURRENCY, Workplace, exports_in
from ipistate.kernel import decode, encode, trusted_object, unstructure


if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping, Sequence

    from ipistate.demo.plan import DemoRollout
    from ipistate.kernel import JsonObject

L = TypeVar("L")
R = TypeVar("R")

CHECKPOINT: Final = "checkpoint"
"""Directory of the checkpoint."""


class DemoWatcher(Protocol):
    """Is told how the demo gets on."""

    def stage(self, name: str) -> None:
        """A new stage of the interrupted run begins."""
        ...

    def advance(self, recording: Recording) -> None:
        """An episode, or the half of one, is done."""
        ...


async def run(
    rollouts: Sequence[DemoRollout], place: Workplace, watch: DemoWatcher
) -> DemoReport:
    """Play the rollouts twice, once through a crash, and compare.

    Raises:
        IpiStateError: A server did not start, or refused a control operation.
    """
    began = time.perf_counter()
    crash, beside = await both(
        through_crash(rollouts, place, watch),
        without_interruption(rollouts, place, watch),
    )
    watch.stage("compare")
    worlds = exports_in(place.checkpoint(CHECKPOINT))
    outcomes = compare_all(rollouts, crash.recordings, beside, worlds)
    place.keep_rows(result_rows(rollouts, crash.recordings))
    return DemoReport(
        outcomes=outcomes,
        evidence=crash.evidence,
        seconds=time.perf_counter() - began,
    )


async def both(
    left: Coroutine[Any, Any, L], right: Coroutine[Any, Any, R]
) -> tuple[L, R]:
    """Run two coroutines to their ends; the first error is raised as it is."""
    # Unlike gather, a group waits for the clean-up of both when one of them fails.
    try:
        async with asyncio.TaskGroup() as group:
            tasks = group.create_task(left), group.create_task(right)
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return tasks[0].result(), tasks[1].result()


@attrs.frozen
class Crash:
    """What was recorded on both sides of a crash, and what the servers said."""

    recordings: Mapping[str, Recording]
    evidence: Evidence


async def without_interruption(
    rollouts: Sequence[DemoRollout], place: Workplace, watch: DemoWatcher
) -> Mapping[str, Recording]:
    """Play every rollout on a server that lives to the end."""
    async with place.served("uninterrupted") as server:
        step = partial(play, server.connection)
        return await play_all(rollouts, step, CONCURRENCY, watch.advance)


async def through_crash(
    rollouts: Sequence[DemoRollout], place: Workplace, watch: DemoWatcher
) -> Crash:
    """Play rollouts to their cuts, kill the server, restore, and play on."""
    unfinished = [rollout for rollout in rollouts if rollout.cut is not None]
    scope = [rollout.episode for rollout in unfinished]
    directory = place.checkpoint(CHECKPOINT)
    async with place.served("first") as first:
        watch.stage("play")
        step = partial(play_to_cut, first.connection)
        before = await play_all(rollouts, step, CONCURRENCY, watch.advance)
        watch.stage("checkpoint")
        committed = await first.control.checkpoint("step-1", directory, scope)
        watch.stage("kill -9")
        status = await first.process.kill()
    async with place.served("fresh") as fresh:
        watch.stage("restore")
        restored = await fresh.control.restore("restore-1", directory, scope)
        watch.stage("play on")
        on = continuing(fresh.connection, before)
        after = await play_all(unfinished, on, CONCURRENCY, watch.advance)
        left = await fresh.control.sessions()
    evidence = Evidence(
        killed_pid=first.process.pid,
        kill_status=status,
        fresh_pid=fresh.process.pid,
        manifest=unstructure(committed.manifest),
        committed=committed.episode_ids,
        restored=restored.restored,
        sessions_left=left,
    )
    return Crash({**before, **after}, evidence)


def result_rows(
    rollouts: Sequence[DemoRollout], recordings: Mapping[str, Recording]
) -> Iterator[bytes]:
    """Write each finished rollout as one row: task, response, verdict and indices."""
    for rollout in rollouts:
        recording = recordings[rollout.episode.rollout_id]
        if recording.verdict is not None:
            row = verify_request(rollout, recording.replies)
            verdict = cast("JsonObject", decode(recording.verdict))
            indices = {
                "_ng_task_index": rollout.task_index,
                "_ng_rollout_index": rollout.rollout_index,
            }
            yield encode(trusted_object({**row, **verdict, **indices}))
