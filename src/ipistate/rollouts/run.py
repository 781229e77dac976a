"""A run from start to end: files, server, recovery, rollouts, metrics."""

from __future__ import annotations

import secrets
import time

from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import attrs

from ipistate.clients import ControlClient, Coordinator, discover_urls
from ipistate.errors import CheckpointError
from ipistate.rollouts.boundary import Boundary
from ipistate.rollouts.checkpoints import Checkpoints
from ipistate.rollouts.connection import Server, ServerError, is_alive
from ipistate.rollouts.episode import RunContext
from ipistate.rollouts.process import ServerProcess
from ipistate.rollouts.rollout import Names, Place, all_places, planned
from ipistate.rollouts.runner import Ending, Runner
from ipistate.rollouts.serving import Serving
from ipistate.rollouts.store import Store


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from pathlib import Path

    from ipistate.agents import AgentState, Policy
    from ipistate.kernel import JsonObject
    from ipistate.protocol import EpisodeId
    from ipistate.rollouts.configuration import Configuration
    from ipistate.rollouts.records import Records, RunFiles
    from ipistate.rollouts.runner import RunWatcher
    from ipistate.rollouts.tally import RunTally
    from ipistate.rollouts.tasks import TaskFile

_COMMAND: Final = ("-m", "ipistate.rollouts.serving")


@attrs.frozen(kw_only=True)
class RunOrder:
    """What is to be run, and how."""

    tasks: TaskFile
    configuration: Configuration
    policies: Sequence[Policy]
    """Who plays the first repeat of a row, the second, and so on, in turn."""
    concurrency: int = 16
    most_failures: int = 50
    """So many failures in a row end the run."""
    url: str | None = None
    """Where a server of sessions listens; None starts one."""
    token: str | None = attrs.field(default=None, repr=False)
    """The control token of the server at ``url``; needed for checkpoints."""
    checkpoint_dir: Path | None = None
    checkpoint_seconds: float = 30.0


@attrs.frozen(kw_only=True)
class RunOutcome:
    """What a run has come to."""

    ending: Ending
    planned: int
    """All rollouts of the run."""
    earlier: int
    """Those that had a row before."""
    done: int
    """Those that have one now."""
    failed: int
    """Attempts of this time that are masked."""
    continued: int
    """Rollouts of this time that went on from a checkpoint."""
    tally: RunTally
    seconds: float

    @property
    def unfinished(self) -> int:
        """How many rollouts have no row."""
        return self.planned - self.done


@attrs.frozen
class _Served:
    server: Server
    control: tuple[Coordinator, str] | None


async def run(
    order: RunOrder,
    records: Records,
    watch: RunWatcher,
    ready: Callable[[Runner], None] = lambda _: None,
) -> RunOutcome:
    """Play what is left of a run.

    Args:
        order: What to run.
        records: Its files.
        watch: Is told how it gets on.
        ready: Gets the runner, so that it can be stopped.

    Raises:
        IpiStateError: The server does not start, does not answer or cannot restore; a
            file cannot be written. What was written stays, and the run can go on.
    """
    began, earlier = time.perf_counter(), len(records.done)
    boundary: Boundary[AgentState] = Boundary()
    failures: list[str] = []

    def finished(row: JsonObject) -> None:
        records.finished(row)
        watch.finished(row)

    def failed(failure: JsonObject) -> None:
        records.failed(failure)
        failures.append(str(failure["failure_kind"]))

    async with _served(order, records) as served:
        checkpoints = _checkpoints(order, records, boundary, served)
        held = await _recovered(order, records, checkpoints, watch)
        stage = RunContext(
            tasks=order.tasks,
            policies=order.policies,
            max_steps=order.configuration.max_steps,
            boundary=boundary,
            finished=finished,
        )
        runner = Runner(
            stage=stage,
            server=served.server,
            watch=watch,
            began=records.began,
            failed=failed,
            most_failures=order.most_failures,
            checkpoints=checkpoints,
            seconds=order.checkpoint_seconds,
        )
        ready(runner)
        names = Names(order.configuration.name)
        rollouts = planned(
            all_places(len(order.tasks), order.configuration.num_repeats),
            names,
            done=frozenset(records.done),
            begun=dict(records.begun),
            restored=_places(names, held),
        )
        try:
            ending = await runner.run(rollouts, held, order.concurrency)
        finally:
            records.sync()
    records.write_metrics()
    total = len(order.tasks) * order.configuration.num_repeats
    if ending is Ending.COMPLETE and len(records.done) == total:
        _tidy(records.files)
    return RunOutcome(
        ending=ending,
        planned=total,
        earlier=earlier,
        done=len(records.done),
        failed=len(failures),
        continued=len(held),
        tally=records.tally,
        seconds=time.perf_counter() - began,
    )


def _tidy(files: RunFiles) -> None:
    # Of a run with nothing left to do, nobody needs to know how it was done.
    for path in (files.log, files.failures):
        with suppress(OSError):
            if path.stat().st_size == 0:
                path.unlink()
    files.attempts.unlink(missing_ok=True)


def _places(
    names: Names, held: Mapping[EpisodeId, AgentState]
) -> dict[Place, EpisodeId]:
    found = {names.place(episode.rollout_id): episode for episode in held}
    return {place: episode for place, episode in found.items() if place is not None}


@asynccontextmanager
async def _served(order: RunOrder, records: Records) -> AsyncGenerator[_Served]:
    async with AsyncExitStack() as stack:
        url, token = order.url, order.token
        if url is None:
            token = secrets.token_urlsafe(32)
            told = Serving(token=token, effects=order.configuration.effects)
            process = await ServerProcess.start(
                _COMMAND, records.files.log, told.to_line()
            )
            url = (await stack.enter_async_context(process)).url
        server = Server(url)
        if not await is_alive(server):
            message = (
                f"no server of sessions answers at {url}; start one: ipistate serve"
            )
            raise ServerError("server_unreachable", message)
        if order.checkpoint_dir is None or token is None:
            yield _Served(server, None)
            return
        client = await stack.enter_async_context(ControlClient(token))
        found = await discover_urls([url], client, required=())
        yield _Served(server, (Coordinator(found, client), found[0].name))


def _checkpoints(
    order: RunOrder, records: Records, boundary: Boundary[AgentState], served: _Served
) -> Checkpoints | None:
    if served.control is None or order.checkpoint_dir is None:
        return None
    coordinator, instance = served.control
    run = order.configuration.name
    return Checkpoints(
        coordinator=coordinator,
        store=Store(root=order.checkpoint_dir, run=run, server=instance),
        boundary=boundary,
        before_publishing=records.sync,
    )


async def _recovered(
    order: RunOrder,
    records: Records,
    checkpoints: Checkpoints | None,
    watch: RunWatcher,
) -> Mapping[EpisodeId, AgentState]:
    if checkpoints is None:
        return {}
    if order.url is not None and records.stale():
        await checkpoints.clear(records.stale())
    for pair in checkpoints.store.newest():
        if isinstance(pair, CheckpointError):
            watch.note(
                f"a checkpoint is not complete, so an older one is used: {pair.message}"
            )
            continue
        wanted = [one for one in pair.held if _is_open(records, one)]
        if not wanted:
            return {}
        watch.note(f"restoring {len(wanted)} rollouts from {pair.checkpoint_id}")
        return await checkpoints.restore(pair, wanted)
    return {}


def _is_open(records: Records, episode: EpisodeId) -> bool:
    place = records.names.place(episode.rollout_id)
    return place is not None and place not in records.done
