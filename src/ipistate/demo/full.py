"""The full demo: two deaths, a checkpoint of what nobody has continued, retirements."""

from __future__ import annotations

import time

from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from ipistate.demo.full_report import DemoStage, FullReport, Retirement
from ipistate.demo.play import (
    Recording,
    continuing,
    play,
    play_all,
    play_to_cut,
    play_until,
)
from ipistate.demo.report import compare_all
from ipistate.demo.run import both, result_rows, without_interruption
from ipistate.demo.workplace import CONCURRENCY, exports_in
from ipistate.kernel import encode, freeze, unstructure


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ipistate.coordination import CommitReply
    from ipistate.demo.plan import DemoRollout
    from ipistate.demo.run import DemoWatcher
    from ipistate.demo.workplace import Served, SessionExport, Workplace
    from ipistate.protocol import EpisodeId

RETIRED_OF: Final = 10
"""One of so many rollouts at the checkpoint is retired, and at least one."""

_FIRST: Final = "step-1"
_SECOND: Final = "step-2"
_STALE: Final = "stale_attempt"


@attrs.frozen(kw_only=True)
class Crashes:
    """What was recorded through both crashes, and what the servers said."""

    recordings: Mapping[str, Recording]
    first: DemoStage
    second: DemoStage
    retired: Retirement
    sessions_left: int


async def run_full(
    rollouts: Sequence[DemoRollout], place: Workplace, watch: DemoWatcher
) -> FullReport:
    """Play the rollouts twice, once through two crashes, and compare.

    Raises:
        IpiStateError: A server did not start, or refused a control operation.
    """
    began = time.perf_counter()
    crashes, beside = await both(
        through_two_crashes(rollouts, place, watch),
        without_interruption(rollouts, place, watch),
    )
    watch.stage("compare")
    first, second = (exports_in(place.checkpoint(name)) for name in (_FIRST, _SECOND))
    outcomes = compare_all(rollouts, crashes.recordings, beside, first)
    place.keep_rows(result_rows(rollouts, crashes.recordings))
    return FullReport(
        outcomes=outcomes,
        first=crashes.first,
        second=crashes.second,
        carried=_carried(first, second),
        retired=crashes.retired,
        sessions_left=crashes.sessions_left,
        seconds=time.perf_counter() - began,
    )


def _carried(
    first: Mapping[EpisodeId, SessionExport], second: Mapping[EpisodeId, SessionExport]
) -> int:
    later = {
        episode.next_attempt: export.to_json() for episode, export in first.items()
    }
    return sum(export.to_json() == later.get(e) for e, export in second.items())


async def through_two_crashes(
    rollouts: Sequence[DemoRollout], place: Workplace, watch: DemoWatcher
) -> Crashes:
    """Play to the cuts, die, restore, checkpoint, die again, restore, play on."""
    unfinished = [rollout for rollout in rollouts if rollout.cut is not None]
    scope = [rollout.episode for rollout in unfinished]
    async with place.served("first") as server:
        watch.stage("play")
        step = partial(play_to_cut, server.connection)
        before = await play_all(rollouts, step, CONCURRENCY, watch.advance)
        watch.stage("checkpoint")
        directory = place.checkpoint(_FIRST)
        committed = await server.control.checkpoint(_FIRST, directory, scope)
        watch.stage("kill -9")
        first = await _killed(server, committed)
    async with place.served("second") as server:
        watch.stage("restore")
        first = await _restored(server, first, directory, scope)
        watch.stage("checkpoint of what nobody has continued")
        directory = place.checkpoint(_SECOND)
        scope = [episode.next_attempt for episode in scope]
        committed = await server.control.checkpoint(_SECOND, directory, scope)
        watch.stage("kill -9 again")
        second = await _killed(server, committed)
    async with place.served("third") as server:
        watch.stage("restore again")
        second = await _restored(server, second, directory, scope)
        going_on = [
            attrs.evolve(rollout, episode=episode)
            for rollout, episode in zip(unfinished, scope, strict=True)
        ]
        after, retired = await _to_the_end(server, going_on, before, watch)
        left = await server.control.sessions()
    return Crashes(
        recordings={**before, **after},
        first=first,
        second=second,
        retired=retired,
        sessions_left=left,
    )


async def _killed(server: Served, committed: CommitReply) -> DemoStage:
    return DemoStage(
        pid=server.process.pid,
        status=await server.process.kill(),
        manifest=unstructure(committed.manifest),
        committed=committed.episode_ids,
        restored=(),
        sessions=0,
    )


async def _restored(
    server: Served, stage: DemoStage, directory: Path, scope: Sequence[EpisodeId]
) -> DemoStage:
    done = await server.control.restore(f"restore-{directory.name}", directory, scope)
    sessions = await server.control.sessions()
    return attrs.evolve(stage, restored=done.restored, sessions=sessions)


async def _to_the_end(
    server: Served,
    rollouts: Sequence[DemoRollout],
    before: Mapping[str, Recording],
    watch: DemoWatcher,
) -> tuple[dict[str, Recording], Retirement]:
    count = max(1, len(rollouts) // RETIRED_OF)
    given_up, going_on = rollouts[:count], rollouts[count:]
    watch.stage("play on, retire some")
    on = continuing(server.connection, before)
    after = await play_all(going_on, on, CONCURRENCY, watch.advance)
    retired = await _retire(server, given_up, before)
    watch.stage("start over")
    again = [
        attrs.evolve(rollout, episode=rollout.episode.next_attempt.next_attempt)
        for rollout in given_up
    ]
    step = partial(play, server.connection)
    anew = await play_all(again, step, CONCURRENCY, watch.advance)
    watch.stage("forget")
    await server.control.forget("forget-1", retired.rollouts)
    retired = attrs.evolve(retired, marks_left=await server.control.marks())
    return {**after, **anew}, retired


async def _retire(
    server: Served, rollouts: Sequence[DemoRollout], before: Mapping[str, Recording]
) -> Retirement:
    attempts = [rollout.episode.next_attempt for rollout in rollouts]
    for rollout in rollouts[::2]:
        await _one_more_call(server, rollout, before[rollout.episode.rollout_id])
    held = await server.control.sessions()
    await server.control.retire("retire-1", attempts)
    codes = [
        code
        for rollout in rollouts
        for code in await _late_calls(server, rollout, before)
    ]
    closed = [await _close(server, rollout, before) for rollout in rollouts]
    return Retirement(
        rollouts=tuple(attempt.rollout_id for attempt in attempts),
        sessions_freed=held - await server.control.sessions(),
        refused=sum(code == _STALE for code in codes),
        admitted=sum(code != _STALE for code in codes),
        closed=sum(code is None for code in closed),
        marks_left=len(attempts),
    )


async def _one_more_call(server: Served, rollout: DemoRollout, held: Recording) -> None:
    # So that some of the retired sessions have gone on, and others were never claimed.
    attempt = attrs.evolve(rollout, episode=rollout.episode.next_attempt)
    await play_until(server.connection, attempt, held, len(held.replies) + 1)


async def _late_calls(
    server: Served, rollout: DemoRollout, before: Mapping[str, Recording]
) -> list[str | None]:
    cookies = before[rollout.episode.rollout_id].cookies
    call, seed = rollout.calls[0], rollout.task.to_json()
    retired, connection = rollout.episode.next_attempt, server.connection
    arguments = encode(call.arguments)
    return [
        await connection.episode(retired, cookies).refusal(call.name, arguments),
        await connection.episode(None, cookies).refusal(call.name, arguments),
        await connection.episode(retired).refusal("seed_session", seed),
        await connection.episode(rollout.episode).refusal("seed_session", seed),
    ]


async def _close(
    server: Served, rollout: DemoRollout, before: Mapping[str, Recording]
) -> str | None:
    cookies, attempt = before[rollout.episode.rollout_id].cookies, rollout.episode
    body = {
        "resources_session_id": attempt.capture_key,  # the cookie says which it is
        "episode_id": attrs.asdict(attempt.next_attempt),
    }
    client = server.connection.episode(attempt.next_attempt, cookies)
    return await client.refusal("close_session", encode(freeze(body)))
