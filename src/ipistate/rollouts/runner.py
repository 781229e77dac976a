"""Playing the rollouts of a run: so many at a time, until they or something else ends."""

from __future__ import annotations

import asyncio

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import attrs

from ipistate.agents import PolicyError
from ipistate.kernel import JsonObject
from ipistate.rollouts.checkpoints import FAILURES
from ipistate.rollouts.connection import Channel, ServerError, is_alive
from ipistate.rollouts.episode import Play


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ipistate.agents import AgentState
    from ipistate.protocol import EpisodeId
    from ipistate.rollouts.checkpoints import Checkpoints
    from ipistate.rollouts.connection import Server
    from ipistate.rollouts.episode import RunContext
    from ipistate.rollouts.rollout import Rollout

_LOST = frozenset({"server_unreachable", "server_timeout"})


class Ending(StrEnum):
    """Why no further rollout is played."""

    COMPLETE = "complete"
    """There is none left."""
    INTERRUPTED = "interrupted"
    """Somebody wants it to stop."""
    SERVER_GONE = "server_gone"
    """The server of sessions does not answer any more."""
    FAILING = "failing"
    """So many rollouts in a row have failed that the next ones would, too."""


class RunWatcher(Protocol):
    """Is told how a run gets on."""

    def began(self, rollout: Rollout) -> None:
        """An attempt begins, or goes on from a checkpoint."""
        ...

    def failed(self, failure: JsonObject) -> None:
        """An attempt has failed and is masked."""
        ...

    def finished(self, row: JsonObject) -> None:
        """An attempt has been scored and its row written."""
        ...

    def note(self, text: str) -> None:
        """Something that people want to know."""
        ...


@attrs.define(eq=False, kw_only=True)
class Runner:
    """Plays rollouts.

    Args:
        stage: What they share.
        server: Where the sessions are.
        watch: Is told how it gets on.
        failed: Takes what is known of an attempt that failed.
        most_failures: So many in a row end the run.
        checkpoints: If they are taken.
        seconds: How long from one checkpoint to the next.
    """

    stage: RunContext
    server: Server
    watch: RunWatcher
    began: Callable[[Rollout], None]
    failed: Callable[[JsonObject], None]
    most_failures: int
    checkpoints: Checkpoints | None = None
    seconds: float = 30.0
    _ending: Ending = attrs.field(default=Ending.COMPLETE, init=False)
    _over: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    _in_a_row: int = attrs.field(default=0, init=False)

    def stop(self, ending: Ending = Ending.INTERRUPTED) -> None:
        """Begin nothing any more, and let every episode stop at its next boundary."""
        if not self._over.is_set():
            self._ending = ending
            self._over.set()

    async def run(
        self,
        rollouts: Iterator[Rollout],
        held: Mapping[EpisodeId, AgentState],
        concurrency: int,
    ) -> Ending:
        """Play, ``concurrency`` at a time, and return why it has ended.

        Whatever else is raised ends the run; all that was written stays.
        """
        work = asyncio.create_task(self._play_all(rollouts, held, concurrency))
        over = asyncio.create_task(self._over.wait())
        timer = asyncio.create_task(self._checkpoint_again_and_again())
        try:
            await asyncio.wait({work, over, timer}, return_when=asyncio.FIRST_COMPLETED)
            if timer.done():
                timer.result()
            if self._ending is not Ending.SERVER_GONE and not work.done():
                await self._last_checkpoint()
        finally:
            for task in (timer, over, work):
                task.cancel()
            told = await asyncio.gather(work, over, timer, return_exceptions=True)
        if isinstance(told[0], Exception):
            raise told[0]
        return self._ending

    async def _play_all(
        self,
        rollouts: Iterator[Rollout],
        held: Mapping[EpisodeId, AgentState],
        concurrency: int,
    ) -> None:
        async def work(channel: Channel) -> None:
            for rollout in rollouts:
                if self._over.is_set():
                    return
                await self._play(rollout, channel, held.get(rollout.episode))

        try:
            async with Channel(self.server) as channel, asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(work(channel))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors

    async def _play(
        self, rollout: Rollout, channel: Channel, held: AgentState | None
    ) -> None:
        self.began(rollout)
        self.watch.began(rollout)
        play = Play.of(self.stage, rollout, channel, held)
        try:
            await play.play()
        except PolicyError as error:
            await self._failed(play, error)
        except ServerError as error:
            if error.code in _LOST and not await is_alive(self.server):
                self.stop(Ending.SERVER_GONE)
                return
            await self._failed(play, error)
        else:
            self._in_a_row = 0

    async def _failed(self, play: Play, error: PolicyError | ServerError) -> None:
        await play.give_up()
        failure = JsonObject(
            {
                **play.labels(),
                "mask_sample": True,
                "failure_kind": error.code,
                "failure_reason": error.message,
                "response": play.response(),
            }
        )
        self.failed(failure)
        self.watch.failed(failure)
        self._in_a_row += 1
        if self._in_a_row >= self.most_failures:
            self.stop(Ending.FAILING)

    async def _checkpoint_again_and_again(self) -> None:
        if self.checkpoints is None:
            await asyncio.Event().wait()
        while True:
            await asyncio.sleep(self.seconds)
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
                self.stop(Ending.SERVER_GONE)

    async def _last_checkpoint(self) -> None:
        if self.checkpoints is not None:
            await self._checkpoint()
