"""A run from start to end: files, server, recovery, rollouts, metrics."""

from __future__ import annotations

import asyncio
import secrets
import time

from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import attrs

from ipistate.clients import ControlClient, Coordinator, discover_urls
from ipistate.deploy import ServerProcess
from ipistate.rollouts.checkpoints import Boundary, Checkpoints
from ipistate.rollouts.configuration import planned
from ipistate.rollouts.connection import Server, ServerError, is_alive
from ipistate.rollouts.recovery import CheckpointPlace, check_place, recovered
from ipistate.rollouts.runner import Ending, Runner
from ipistate.rollouts.serving import Serving
from ipistate.rollouts.store import Store


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from ipistate.agents import AgentState
    from ipistate.protocol import EpisodeId
    from ipistate.rollouts.records import Records, RunFiles, RunTally
    from ipistate.rollouts.runner import RunOrder, RunWatcher

_COMMAND: Final = ("-m", "ipistate.rollouts.serving")


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
    restarts: int = 0
    """How often the run's own server was started again."""
    tally: RunTally
    seconds: float

    @property
    def unfinished(self) -> int:
        """How many rollouts have no row."""
        return self.planned - self.done


async def run(
    order: RunOrder, records: Records, watch: RunWatcher, stop: asyncio.Event
) -> RunOutcome:
    """Play what is left of a run.

    Args:
        order: What to run.
        records: Its files.
        watch: Is told how it gets on.
        stop: Set it, and nothing more begins, and every attempt stops at its next turn.

    Raises:
        IpiStateError: The server does not start, does not answer or cannot restore; a
            file cannot be written. What was written stays, and the run can go on.
    """
    began, earlier = time.monotonic(), len(records.done)
    check_place(order.checkpoint_dir, records, watch)
    lives: list[RunLife] = []
    while True:
        life = await _live(order, records, watch, stop, began)
        lives.append(life)
        if life.ending is not Ending.SERVER_GONE or order.url is not None:
            break
        # Only so often: what kills a server each time would go on for ever.
        if len(lives) > order.most_restarts:
            break
        watch.note("the run's own server has died; it is started again")
    records.write_metrics()
    total, done = records.configuration.rollouts, len(records.done)
    if life.ending is Ending.COMPLETE and done == total:
        _tidy(records.files)
    return RunOutcome(
        ending=life.ending,
        planned=total,
        earlier=earlier,
        done=done,
        failed=sum(life.failures for life in lives),
        continued=sum(life.continued for life in lives),
        restarts=len(lives) - 1,
        tally=records.tally,
        seconds=time.monotonic() - began,
    )


@attrs.frozen(kw_only=True)
class RunLife:
    """What was done with one server."""

    ending: Ending
    failures: int
    continued: int


async def _live(
    order: RunOrder,
    records: Records,
    watch: RunWatcher,
    stop: asyncio.Event,
    began: float,
) -> RunLife:
    boundary: Boundary = Boundary()
    async with _served(order, records) as (server, coordinator), _copied(stop) as ends:
        checkpoints = _checkpoints(order, records, boundary, coordinator)
        restored = await _recovered(order, records, checkpoints, watch)
        runner = Runner(
            order=order,
            records=records,
            watch=watch,
            stop=ends,
            server=server,
            boundary=boundary,
            checkpoints=checkpoints,
            began=began,
        )
        rollouts = planned(
            records.configuration,
            done=frozenset(records.done),
            begun=dict(records.begun),
            restored=restored,
        )
        try:
            ending = await runner.run(rollouts)
        finally:
            records.sync()
    return RunLife(ending=ending, failures=runner.failures, continued=len(restored))


@asynccontextmanager
async def _copied(stop: asyncio.Event) -> AsyncGenerator[asyncio.Event]:
    # The runner sets its own when it gives up, and a later life must not begin stopped.
    ends = asyncio.Event()

    async def wait() -> None:
        await stop.wait()
        ends.set()

    if stop.is_set():
        ends.set()
    waiting = asyncio.create_task(wait())
    try:
        yield ends
    finally:
        waiting.cancel()


def _tidy(files: RunFiles) -> None:
    # How a run was done is of no use when nothing of it is left to do.
    for path in (files.log, files.failures):
        with suppress(OSError):
            if path.stat().st_size == 0:
                path.unlink()
    files.attempts.unlink(missing_ok=True)
    files.checkpoints.unlink(missing_ok=True)


@asynccontextmanager
async def _served(
    order: RunOrder, records: Records
) -> AsyncGenerator[tuple[Server, Coordinator | None]]:
    async with AsyncExitStack() as stack:
        url, token = order.url, order.token
        if url is None:
            token = secrets.token_urlsafe(32)
            told = Serving(
                token=token,
                effects=records.configuration.effects,
                tools=order.tools,
            )
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
            yield server, None
            return
        client = await stack.enter_async_context(ControlClient(token))
        found = await discover_urls([url], client, required=())
        yield server, Coordinator(found, client)


def _checkpoints(
    order: RunOrder,
    records: Records,
    boundary: Boundary,
    coordinator: Coordinator | None,
) -> Checkpoints | None:
    if coordinator is None or order.checkpoint_dir is None:
        return None
    store = Store(
        root=order.checkpoint_dir,
        run=records.configuration.name,
        server=coordinator.participants[0].name,
    )
    return Checkpoints(
        coordinator=coordinator, store=store, boundary=boundary, records=records
    )


async def _recovered(
    order: RunOrder,
    records: Records,
    checkpoints: Checkpoints | None,
    watch: RunWatcher,
) -> Mapping[EpisodeId, AgentState]:
    if checkpoints is None:
        return {}
    CheckpointPlace.of(checkpoints.store).write(records.files.checkpoints)
    if order.url is not None and records.stale():
        await checkpoints.clear(records.stale())
    return await recovered(checkpoints, records, watch)
