"""Tasks of live episodes: they carry what a protocol says to the engine, and back.

An ``EpisodeTask`` is a value that does one thing at a time. Here it waits for what the
engine says, makes its requests, and keeps its timers.
"""

from __future__ import annotations

import asyncio

from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

from ipistate.protocol import (
    ArmDeadline,
    Cancel,
    DeadlinePassed,
    EffectFault,
    EffectRequest,
    EpisodeConclusion,
    EpisodeEnded,
    Expire,
    FaultKind,
    Proceed,
    Wake,
    WakeTaken,
)


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from ipistate.protocol import (
        EffectReply,
        EpisodeFailure,
        EpisodeRefusal,
        EpisodeTask,
        PartEvent,
    )

    Send: TypeAlias = Callable[[EffectRequest], Awaitable[EffectReply | EffectFault]]

S = TypeVar("S")


@attrs.define(eq=False)
class _Live:
    """What the shell keeps of one episode."""

    expired: asyncio.Future[None]
    proceeds: asyncio.Future[None]
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None


class EpisodeTasks(Generic[S]):
    """The tasks of live episodes, by key.

    Args:
        feed: Takes events for the machine.
        send: Makes a request.
        clock: Seconds since the epoch.
    """

    def __init__(
        self, feed: Callable[[PartEvent], None], send: Send, clock: Callable[[], float]
    ) -> None:
        self._feed = feed
        self._send = send
        self._clock = clock
        self._live: dict[str, _Live] = {}

    def start(
        self, task: EpisodeTask[S]
    ) -> asyncio.Future[S | EpisodeFailure | EpisodeRefusal]:
        """Start a task, which runs when the engine says so; return what it comes to.

        The future is cancelled if the episode is retired.
        """
        loop = asyncio.get_running_loop()
        outcome = loop.create_future()
        live = _Live(loop.create_future(), loop.create_future())
        self._live[task.key] = live
        live.task = loop.create_task(self._play(task, live, outcome))
        return outcome

    def perform(self, action: Proceed | Wake | Cancel | Expire | ArmDeadline) -> None:
        """Do what the engine says; episodes that have ended do not mind."""
        live = self._live.get(action.key)
        if live is None or live.task is None:
            return
        match action:
            case Proceed():
                live.proceeds.set_result(None)
            case Wake(key):
                asyncio.get_running_loop().call_soon(self._feed, WakeTaken(key))
            case Cancel():
                live.task.cancel()
            case Expire():
                if not live.expired.done():
                    live.expired.set_result(None)
            case ArmDeadline(key, at):
                self._arm(live, key, at)

    def _arm(self, live: _Live, key: str, at: float | None) -> None:
        if live.timer is not None:
            live.timer.cancel()
            live.timer = None
        if at is not None:
            loop = asyncio.get_running_loop()
            delay = max(0.0, at - self._clock())
            live.timer = loop.call_later(delay, self._feed, DeadlinePassed(key))

    async def _play(
        self,
        task: EpisodeTask[S],
        live: _Live,
        outcome: asyncio.Future[S | EpisodeFailure | EpisodeRefusal],
    ) -> None:
        try:
            ended = await self._concluded(task, live)
            if not outcome.done():
                outcome.set_result(ended.outcome)
            for request in ended.cleanup:
                await self._send(request)
        except BaseException as error:
            if not outcome.done() and not isinstance(error, asyncio.CancelledError):
                outcome.set_exception(error)
            outcome.cancel()
            if not isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._arm(live, task.key, None)
            del self._live[task.key]
            self._feed(EpisodeEnded(task.key))

    async def _concluded(
        self, task: EpisodeTask[S], live: _Live
    ) -> EpisodeConclusion[S]:
        await live.proceeds
        task, action = task.proceeded()
        while not isinstance(action, EpisodeConclusion):
            if isinstance(action, EffectRequest):
                task, action = task.answered(await self._answer(action, live))
                continue
            # Before the event: the engine may answer it at once.
            live.proceeds = asyncio.get_running_loop().create_future()
            self._feed(action)
            await live.proceeds
            task, action = task.proceeded()
        return action

    async def _answer(
        self, request: EffectRequest, live: _Live
    ) -> EffectReply | EffectFault:
        sending = asyncio.ensure_future(self._send(request))
        try:
            await asyncio.wait(
                (sending, live.expired), return_when=asyncio.FIRST_COMPLETED
            )
            if sending.done():
                return sending.result()
            return EffectFault(FaultKind.DEADLINE, "the episode's time is up")
        finally:
            sending.cancel()
