"""The shell of any participant: performs what its machine decides, and decides nothing."""

from __future__ import annotations

import asyncio

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, Protocol, cast

from ipistate.errors import CheckpointError
from ipistate.protocol import (
    STATUS_OF,
    Action,
    CommitBody,
    ControlCalled,
    ControlDropped,
    Event,
    Export,
    Exported,
    Free,
    Freed,
    PartAction,
    ParticipantState,
    PartT,
    Read,
    Reply,
    SetTimer,
    StopWrite,
    Tick,
    Write,
    handle,
    participant_status,
    refusal,
)
from ipistate.server.live.waiting import Pending


if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive

    from ipistate.kernel import JsonObject
    from ipistate.protocol import ControlBody
    from ipistate.server.live.clock import LeaseClock
    from ipistate.server.live.files import CheckpointFiles


def code_of(reply: Reply) -> str | None:
    """Return the code of a refusal, None if the call succeeded."""
    error = cast("dict[str, Any] | None", reply.document.get("error"))
    return None if error is None else error["code"]


class Controlled(Protocol):
    """A participant, as its controller sees it."""

    async def operate(self, body: ControlBody, receive: Receive) -> Reply | None:
        """Make a control call; None if the caller went away before the reply."""
        ...

    def status(self) -> JsonObject:
        """Describe the participant now."""
        ...

    def time(self) -> float:
        """Return the time by which deadlines are measured."""
        ...


class PartShell(Protocol[PartT]):
    """What one kind of server does beside what all participants do."""

    def changed(
        self,
        before: ParticipantState[PartT],
        after: ParticipantState[PartT],
        now: float,
        todo: tuple[Action, ...],
    ) -> None:
        """Learn that the control state has changed, before anything is performed."""
        ...

    def perform(self, action: PartAction) -> None:
        """Do what only this kind does; it must not block."""
        ...

    def export(self, action: Export) -> Exported:
        """Look up states."""
        ...

    def free(self, action: Free) -> Freed | None:
        """Drop states; None if that is told later."""
        ...


class ParticipantShell(Generic[PartT]):
    """Feeds events to the machine and performs its actions in their order.

    Everything happens on the event loop's thread, except the work on files.

    Args:
        participant: The state to begin with.
        part: What this kind of server does.
        files: The work on checkpoint directories.
        refused: Is told the code of each refused call.
        clock: Seconds since the epoch, steady while something is open.
    """

    def __init__(
        self,
        participant: ParticipantState[PartT],
        part: PartShell[PartT],
        files: CheckpointFiles[Any],
        refused: Callable[[str], None],
        clock: LeaseClock,
    ) -> None:
        self.participant: ParticipantState[PartT] = participant
        self._part = part
        self._files = files
        self._refused = refused
        self._clock = clock
        self._numbers = count(1)
        self._calls: dict[int, Pending[Reply]] = {}
        # Its own, because asyncio would import one when it is first needed, and a
        # process that has no file descriptor left can import nothing.
        self._threads = ThreadPoolExecutor(thread_name_prefix="checkpoint")
        self._timer: asyncio.TimerHandle | None = None

    def number(self) -> int:
        """Return a number for a request or a call; none comes twice."""
        return next(self._numbers)

    def status(self) -> JsonObject:
        """Describe the participant now (docs/reference/control-plane.md, section 2.8)."""
        return participant_status(self.participant)

    def time(self) -> float:
        """Return the time by which deadlines are measured, in seconds since the epoch."""
        return self._clock()

    async def operate(self, body: ControlBody, receive: Receive) -> Reply | None:
        """Make a control call; None if the caller went away before the reply.

        A commit whose directory is not under the root is refused at once: the machine
        would bind the checkpoint to it.
        """
        if isinstance(body, CommitBody) and self._files.has_root:
            try:
                loop, named = asyncio.get_running_loop(), body.checkpoint_dir
                await loop.run_in_executor(self._threads, self._files.check, named)
            except CheckpointError as error:
                document = refusal(error.code, error.message)
                return Reply(self.number(), STATUS_OF[error.code], document)
        call: Pending[Reply] = Pending(self.number())
        self._calls[call.number] = call
        self.feed(ControlCalled(call.number, body))
        try:
            if call.answer is None:
                await call.settled(receive)
            return call.answer
        finally:
            if self._calls.pop(call.number, None) is not None:
                self.feed(ControlDropped(call.number))

    def feed(self, event: Event) -> None:
        """Take an event, and all that follows from it at once."""
        answers: list[Event] = []
        before, now = self.participant, self._clock()
        participant, todo = handle(before, event, now)
        self.participant = participant
        if participant.control is not before.control:
            if participant.control.is_idle:
                self._clock.release()
            else:
                self._clock.hold()
            self._part.changed(before, participant, now, todo)
        for action in todo:
            self._perform(action, answers.append)
        for answer in answers:
            self.feed(answer)

    def _perform(self, action: Action, answer: Callable[[Event], None]) -> None:
        match action:
            case Reply():
                self._answer(action)
            case Export():
                answer(self._part.export(action))
            case Free():
                freed = self._part.free(action)
                if freed is not None:
                    answer(freed)
            case SetTimer():
                self._set_timer(action.at)
            case Write() | StopWrite() | Read():
                self._in_background(action, answer)
            case PartAction():
                self._part.perform(action)

    def _answer(self, action: Reply) -> None:
        code = code_of(action)
        if code is not None:
            self._refused(code)
        call = self._calls.pop(action.call, None)
        if call is not None:
            call.settle(action)

    def _set_timer(self, at: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at is not None:
            loop = asyncio.get_running_loop()
            delay = max(0.0, at - self._clock())
            self._timer = loop.call_later(delay, self.feed, Tick())

    def _in_background(
        self, action: Write | StopWrite | Read, answer: Callable[[Event], None]
    ) -> None:
        # However this ends, the machine has to hear of it: a write that it believes to
        # go on for ever would let the checkpoint neither succeed nor fail.
        def done(work: asyncio.Future[Event]) -> None:
            if not work.cancelled():
                error = work.exception()
                failed = None if error is None else self._files.failed(action, error)
                self.feed(failed or work.result())

        task = self._files.task(action)
        loop = asyncio.get_running_loop()
        try:
            loop.run_in_executor(self._threads, task).add_done_callback(done)
        except (RuntimeError, OSError) as error:  # there is no room for a thread
            answer(self._files.failed(action, error))
