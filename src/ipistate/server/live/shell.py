"""The shell of a resources server: requests on their way, and their sessions."""

from __future__ import annotations

import asyncio
import logging
import time

from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias

from ipistate.protocol import (
    Action,
    Admit,
    Export,
    Exported,
    Free,
    Freed,
    IdleFound,
    Install,
    PartAction,
    Refuse,
    Reply,
    RequestArrived,
    RequestEnded,
    ResourcesState,
    SessionRecords,
    SessionsMade,
    Settings,
    Sweep,
    enter,
    leave,
    resources_participant,
)
from ipistate.server.live.clock import LeaseClock
from ipistate.server.live.files import CarriedStates, CheckpointFiles
from ipistate.server.live.notes import note_leaked, note_phase
from ipistate.server.live.participant_shell import ParticipantShell
from ipistate.server.live.prefixes import Prefixes
from ipistate.server.live.sessions import Sessions, Uses
from ipistate.server.live.waiting import Pending
from ipistate.server.operating.observer import Observer, WorkStage


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import Receive

    from ipistate.kernel import JsonObject
    from ipistate.protocol import ControlBody, EpisodeId
    from ipistate.server.operating.settings import ServerSettings
    from ipistate.sessions import Session

Passage: TypeAlias = Pending[Admit | Refuse]
"""One data request on its way through the gate, until the machine lets it in or not.

The machine may also refuse what a request wants that it has let in: ``Refuse`` then
takes the place of ``Admit``, and the request has left the gate.
"""

_log: Final = logging.getLogger("ipistate.server.shell")


class Shell:
    """Feeds events to the machine and performs its actions in their order.

    Everything happens on the event loop's thread, except the work on files.

    Args:
        settings: What the operator has decided.
        observer: Is told what happens.
        clock: Seconds since the epoch.
        steady: Seconds of a clock that is never set, for leases and idle sessions.
    """

    def __init__(
        self,
        settings: ServerSettings,
        observer: Observer,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sessions: Sessions = Sessions(
            self.episode_of,
            self.session_of,
            settings.max_sessions or inf,
            self.sweep,
        )
        self.prefixes: Prefixes = Prefixes(
            settings, observer, self.session_of, self.episode_of
        )
        self._settings = settings
        self._states = CarriedStates.of(settings)
        self._observer = observer
        self._clock = LeaseClock(clock, steady)
        self._uses = Uses(settings.idle_seconds or inf, steady)
        self._passages: dict[int, Passage] = {}
        self._waking: set[Passage] = set()
        self._files = CheckpointFiles(
            settings.instance_name,
            SessionRecords(self._states.codec),
            settings.checkpoint_root,
            observer,
            follow_links=not settings.hardened,
        )
        start = resources_participant(
            Settings(
                instance=settings.instance_name,
                lease_grace_seconds=settings.lease_grace_seconds,
            ),
            exports_scope_only=settings.export_scope_only,
            awaits_restore=settings.await_restore,
        )
        self._machine = ParticipantShell(
            start, self, self._files, observer.refused, self._clock
        )

    # The gate

    def arrive(self, path: str, session_id: str, episode: EpisodeId | None) -> Passage:
        """Announce a data request; it may run once its answer is ``Admit``."""
        passage: Passage = Pending(self._machine.number())
        self._passages[passage.number] = passage
        self._machine.feed(RequestArrived(passage.number, path, session_id, episode))
        return passage

    async def answered(self, passage: Passage, receive: Receive) -> Receive:
        """Wait for a request's answer, requests that came earlier going first.

        Without an answer the client went away. Returns the channel to read from.
        """
        if passage.answer is None:
            try:
                return await passage.settled(receive)
            finally:
                self._waking.discard(passage)
        # The gate has opened, and the machine has let in who waited, in their order. But
        # each of them runs only when the loop gets to it, while this request runs now.
        # Two calls of one session would then swap: the later one would see a world
        # without the earlier one's change.
        if self._waking:
            # They are in the event loop's queue already, so one turn is enough.
            await asyncio.sleep(0)
        return receive

    def end(self, passage: Passage, status: int | None, session_id: str) -> None:
        """Report how a request ended; None if it was not answered by its handler."""
        if self._passages.pop(passage.number, None) is not None:
            self._machine.feed(RequestEnded(passage.number, status, session_id))
        elif status is None:
            return
        # What was refused in flight has left the gate, and was a use all the same.
        self._note_use(session_id)

    def enter(
        self, path: str, session_id: str, episode: EpisodeId | None
    ) -> int | None:
        """Let a request in at once and number it; None if it has to ask at the gate."""
        if self._waking or self.prefixes.is_foreign(session_id, episode):
            # What waited at the gate is let in, but did not run yet; it goes first.
            return None
        number = self._machine.number()
        event = RequestArrived(number, path, session_id, episode)
        entered = enter(self._machine.participant, event, self._clock())
        if entered is None:
            return None
        self._machine.participant = entered
        return number

    def leave(self, number: int, status: int | None, session_id: str) -> None:
        """Report how a request that was let in at once ended; None as for ``end``."""
        event = RequestEnded(number, status, session_id)
        left = leave(self._machine.participant, event, self._clock())
        if left is None:
            self._machine.feed(event)
        else:
            self._machine.participant = left
        self._note_use(session_id)

    def _note_use(self, session_id: str) -> None:
        if session_id in self.sessions:
            self._uses.note((session_id,))
        else:
            self._uses.forget((session_id,))

    # Sessions that requests make, and idle sessions

    def make(
        self,
        passage: Passage,
        states: Mapping[str, Session],
        episodes: Mapping[str, EpisodeId],
    ) -> Refuse | None:
        """Start new sessions for a request in flight, and bind them to episodes.

        Returns:
            None, or the answer to the request if it may not; nothing has started then.

        Raises:
            SessionsFullError: ``too_many_sessions``; nothing has started.
        """
        self.sessions.require_room(states)
        if episodes:
            # It was let in; if it may not make these, its answer changes meanwhile.
            self._machine.feed(SessionsMade(passage.number, episodes))
        if isinstance(passage.answer, Refuse):
            return passage.answer
        self.sessions.install(states)
        self._uses.note(states)
        return None

    def sweep(self) -> None:
        """Free the sessions that have been unused for too long, if any may go."""
        idle = self._uses.idle()
        if idle:
            self._machine.feed(IdleFound(idle))

    # The control plane

    async def operate(self, body: ControlBody, receive: Receive) -> Reply | None:
        """Make a control call, as ``ParticipantShell.operate`` does."""
        return await self._machine.operate(body, receive)

    def status(self) -> JsonObject:
        """Describe the participant now (docs/reference/control-plane.md, section 2.8)."""
        return self._machine.status()

    def time(self) -> float:
        """Return the time by which deadlines are measured, in seconds since the epoch."""
        return self._machine.time()

    @property
    def waiting(self) -> int:
        """How many requests wait for a checkpoint to end."""
        return len(self._machine.participant.part.waiting)

    def episode_of(self, session_id: str) -> EpisodeId | None:
        """Return the episode that checkpoints keep this session for."""
        return self._machine.participant.part.sessions.get(session_id)

    def session_of(self, episode: EpisodeId) -> str | None:
        """Return the one session of an episode, None if there are none or several."""
        return self._machine.participant.part.bindings.session_of(episode)

    # What the machine has its shell do

    def changed(
        self,
        before: ResourcesState,
        after: ResourcesState,
        now: float,
        todo: tuple[Action, ...],
    ) -> None:
        """Note phases; idle sessions count from when they can be used again."""
        note_phase(before, after, now, todo)
        if after.part.is_open and not before.part.is_open:
            self._uses.restart()

    def perform(self, action: PartAction) -> None:
        """Do what only a resources server does."""
        match action:
            case Admit() | Refuse():
                self._let_pass(action)
            case Install():
                self._install(action)
            case Sweep():
                self._drop_idle(action)
            case _:
                raise TypeError(f"not a resources server's: {type(action).__name__}")

    def export(self, action: Export) -> Exported:
        """Look up the states of sessions."""
        self._observer.leaked(len(action.leaked))
        episodes = map(self.episode_of, action.leaked)
        note_leaked(filter(None, episodes), self._settings.export_scope_only)
        held, exported = self.sessions.held(action.keys), self._states.exported
        return Exported(action.write, {name: exported(s) for name, s in held.items()})

    def free(self, action: Free) -> Freed:
        """Drop sessions."""
        for session_id in action.keys:
            self.sessions.drop(session_id)
        self._uses.forget(action.keys)
        return Freed(action.removal)

    def _drop_idle(self, action: Sweep) -> None:
        self._uses.forget(action.session_ids)
        swept = self.sessions.sweep(action.session_ids)
        self._observer.swept(swept)
        _log.info("%d idle sessions freed", swept, extra={"sessions": swept})

    def _install(self, action: Install) -> None:
        began = time.perf_counter()
        restored = self._states.restored
        self.sessions.install({name: restored(s) for name, s in action.states.items()})
        self._uses.note(action.states)
        seconds = time.perf_counter() - began
        self._observer.worked(WorkStage.INSTALL, seconds, self._files.read_bytes)

    def _let_pass(self, action: Admit | Refuse) -> None:
        if isinstance(action, Admit):
            passage = self._passages[action.request]
        else:
            passage = self._passages.pop(action.request)
            self._observer.refused(action.code)
        # One that is refused or let in while it arrives sleeps nowhere: nothing to wake.
        if passage.is_waiting:
            self._waking.add(passage)
        passage.settle(action)
