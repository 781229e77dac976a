"""Playing the rollouts of a run: so many at a time, until they or something else ends."""

from __future__ import annotations

import asyncio
import time

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import attrs

from ipistate.agents import PolicyError
from ipistate.kernel import JsonObject
from ipistate.rollouts.attempt import Attempt
from ipistate.rollouts.budget import RunBudget
from ipistate.rollouts.checkpoints import FAILURES
from ipistate.rollouts.connection import (
    Channel,
    EpisodeClient,
    ServerError,
    is_alive,
)


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from ipistate.agents import Policy
    from ipistate.rollouts.checkpoints import Boundary, Checkpoints
    from ipistate.rollouts.configuration import Rollout
    from ipistate.rollouts.connection import Server
    from ipistate.rollouts.records import Records
    from ipistate.rollouts.tasks import TaskFile

_LOST = frozenset({"server_unreachable", "server_timeout"})


class Ending(StrEnum):
    """Why no further rollout is played."""

    COMPLETE = "complete"
    """There is none left."""
    INTERRUPTED = "interrupted"
    """It was stopped."""
    SERVER_GONE = "server_gone"
    """The server of sessions does not answer any more."""
    BUDGET_SPENT = "budget_spent"
    """It may not spend more; what had begun was played to its end."""
    FAILING = "failing"
    """So many rollouts in a row have failed that the next ones would, too."""


class RunWatcher(Protocol):
    """Is told how a run gets on."""

    def began(self, rollout: Rollout) -> None:
        """An attempt begins, or goes on from a checkpoint."""

    def failed(self, failure: JsonObject) -> None:
        """An attempt has failed and is masked."""

    def finished(self, row: JsonObject) -> None:
        """An attempt has been scored and its row written."""

    def note(self, text: str) -> None:
        """Something that people want to know."""


@attrs.frozen(kw_only=True)
class RunOrder:
    """What is to be run, by which policies, where and how."""

    tasks: TaskFile
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
    """How long from one checkpoint to the next."""
    budget: RunBudget = attrs.Factory(RunBudget)
    most_restarts: int = 10
    """So often the run's own server is started again when it dies."""
    tools: str | None = None
    """The server's table of tools, as ``module:name``; None for the built-in one."""


@attrs.define(eq=False, kw_only=True)
class Runner:
    """Plays rollouts.

    Args:
        order: What they share.
        records: Where rows and failures are written.
        watch: Is told how it gets on.
        stop: Ends the run when it is set; the runner sets it when it has to give up.
        server: Where the sessions are.
        boundary: Where attempts stand still for checkpoints.
        checkpoints: If they are taken.
    """

    order: RunOrder
    records: Records
    watch: RunWatcher
    stop: asyncio.Event
    server: Server
    boundary: Boundary
    checkpoints: Checkpoints | None
    began: float
    """When the run began, by ``time.monotonic``."""
    failures: int = attrs.field(default=0, init=False)
    """Attempts that are masked."""
    _warned: set[str] = attrs.field(factory=set[str], init=False)
    _in_a_row: int = attrs.field(default=0, init=False)
    _gave_up: Ending | None = attrs.field(default=None, init=False)
    _is_spent: bool = attrs.field(default=False, init=False)

    async def run(self, rollouts: Iterator[Rollout]) -> Ending:
        """Play, as many at a time as were ordered, and return why it has ended.

        Begun attempts stop at their next boundary. An error that is no failure of a
        policy or of the server ends the run; all that was written stays.
        """
        work = asyncio.create_task(self._play_all(rollouts))
        stopped = asyncio.create_task(self.stop.wait())
        timer = asyncio.create_task(self._checkpoint_regularly())
        tasks = (work, stopped, timer)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if timer.done():
                timer.result()
            if self._gave_up is not Ending.SERVER_GONE and not work.done():
                await self._checkpoint()
        finally:
            for task in tasks:
                task.cancel()
            ended, *_ = await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(ended, Exception):
            raise ended
        if self._gave_up is None and self.stop.is_set():
            return Ending.INTERRUPTED
        spent = Ending.BUDGET_SPENT if self._is_spent else Ending.COMPLETE
        return self._gave_up or spent

    def _give_up(self, why: Ending) -> None:
        # A run that was stopped already was interrupted, whatever happens to it then.
        if not self.stop.is_set():
            self._gave_up = why
            self.stop.set()

    async def _play_all(self, rollouts: Iterator[Rollout]) -> None:
        async def work(channel: Channel) -> None:
            for rollout in rollouts:
                if self.stop.is_set() or self._spends_nothing_more():
                    return
                await self._play(rollout, channel)

        try:
            async with Channel(self.server) as channel, asyncio.TaskGroup() as group:
                for _ in range(self.order.concurrency):
                    group.create_task(work(channel))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors

    def _spends_nothing_more(self) -> bool:
        if not self._is_spent:
            seconds = time.monotonic() - self.began
            told = self.order.budget.reached(self.records.tally.spent, seconds)
            if told is not None:
                self._is_spent = True
                self.watch.note(f"{told}; no further rollout begins")
        return self._is_spent

    async def _play(self, rollout: Rollout, channel: Channel) -> None:
        self.records.began(rollout)
        self.watch.began(rollout)
        attempt = self._attempt(rollout, channel)
        self._warn(attempt.unsent)
        try:
            await attempt.play()
        except PolicyError as error:
            await self._failed(attempt, error)
        except ServerError as error:
            # A server that has died fails every rollout, and none is to be masked.
            if error.code in _LOST and not await is_alive(self.server):
                self._give_up(Ending.SERVER_GONE)
                return
            await self._failed(attempt, error)
        else:
            self._in_a_row = 0

    def _attempt(self, rollout: Rollout, channel: Channel) -> Attempt:
        place, policies = rollout.place, self.order.policies
        return Attempt(
            rollout=rollout,
            row=self.order.tasks.line(place.task),
            policy=policies[place.repeat % len(policies)],
            max_steps=self.records.configuration.max_steps,
            client=EpisodeClient(channel, rollout.episode, rollout.state),
            boundary=self.boundary,
            finished=self._finished,
        )

    def _warn(self, texts: Iterable[str]) -> None:
        # Each once: rows of a file are mostly alike in this.
        for text in texts:
            if text not in self._warned:
                self._warned.add(text)
                self.watch.note(text)

    def _finished(self, row: JsonObject) -> None:
        self.records.finished(row)
        self.watch.finished(row)

    async def _failed(self, attempt: Attempt, error: PolicyError | ServerError) -> None:
        await attempt.give_up()
        failure = JsonObject(
            {
                **attempt.rollout.labels(),
                "mask_sample": True,
                "failure_kind": error.code,
                "failure_reason": error.message,
                "response": attempt.response(),
            }
        )
        self.records.failed(failure)
        self.watch.failed(failure)
        self.failures += 1
        self._in_a_row += 1
        if self._in_a_row >= self.order.most_failures:
            self._give_up(Ending.FAILING)

    async def _checkpoint_regularly(self) -> None:
        while True:
            await asyncio.sleep(self.order.checkpoint_seconds)
            await self._checkpoint()

    async def _checkpoint(self) -> None:
        if self.checkpoints is None:
            return
        try:
            await self.checkpoints.take()
        except FAILURES as error:
            # The rollouts are worth more than their checkpoint.
            self.watch.note(f"there is no checkpoint this time: {error.message}")
            if not await is_alive(self.server):
                self._give_up(Ending.SERVER_GONE)
