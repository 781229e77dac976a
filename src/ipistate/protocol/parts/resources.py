"""The part of a resources server: data requests, and what they say about sessions.

Requests that arrive while the gate is closed wait and are not counted. What a session is
bound to follows from requests and their status alone (docs/reference/control-plane.md, section 3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Self, cast

import attrs

from ipistate.protocol.actions import (
    STATUS_OF,
    Admit,
    Free,
    Install,
    Refuse,
    Sweep,
)
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.events import (
    IdleFound,
    PartEvent,
    RequestArrived,
    RequestEnded,
    SessionsMade,
)
from ipistate.protocol.parts.part import Emit, PlainPart, Readiness, Selection
from ipistate.protocol.parts.retired_attempts import RetiredAttempts, is_among
from ipistate.protocol.parts.session_registry import SessionRegistry
from ipistate.protocol.parts.waiting_requests import WaitingRequests
from ipistate.protocol.records import KIND, CheckpointRecord, SessionRecord
from ipistate.protocol.wire import CLOSE_PATH, SEED_PATH, VERIFY_PATH


MODE: Final = "exported"
VERIFY: Final = "wait"
"""A verify ends its session, so a checkpoint must not let it run twice."""

_ENDING_PATHS: Final = frozenset({VERIFY_PATH, CLOSE_PATH})


@attrs.frozen(kw_only=True)
class ResourcesPart(PlainPart):
    """Which requests may enter, which are inside, and which sessions exist."""

    kind: ClassVar[str] = KIND

    exports_scope_only: bool = False
    """A commit leaves out live sessions whose episodes its scope does not name."""
    is_open: bool = True
    admitted: WaitingRequests = attrs.Factory(WaitingRequests)
    """Requests in flight."""
    waiting: WaitingRequests = attrs.Factory(WaitingRequests)
    """Requests that wait for the gate to open, in the order of their arrival."""
    bindings: SessionRegistry = attrs.Factory(SessionRegistry)

    @property
    def sessions(self) -> Mapping[str, EpisodeId]:
        """The episode that each tracked session is bound to."""
        return self.bindings.sessions

    @property
    def retired(self) -> RetiredAttempts:
        """The attempts that are refused, and their sessions."""
        return self.bindings.retired

    def take(self, event: PartEvent, now: float, emit: Emit) -> Self:
        """Take the arrival or the end of a request, or what one says about sessions."""
        del now
        match event:
            case RequestArrived():
                return self.arrive(event, emit)
            case RequestEnded():
                return self.end(event)
            case SessionsMade():
                return self.make(event, emit)
            case IdleFound():
                return self.sweep(event, emit)
            case _:
                return self

    def leaves(self, event: PartEvent) -> bool:
        """Tell whether a client goes away whose request waits."""
        return isinstance(event, RequestEnded) and event.request in self.waiting

    def arrive(self, event: RequestArrived, emit: Emit) -> Self:
        """Admit a request, refuse it, or let it wait."""
        # What waits is not counted as inside: a prepare waits for what is inside, and
        # the two would wait for each other.
        if not self.is_open:
            waiting = self.waiting.added(event)
            return attrs.evolve(self, waiting=waiting)
        if self._refuses(event, emit):
            return self
        emit(Admit(event.request))
        return self._with(event)

    def enter(self, event: RequestArrived) -> Self | None:
        """Admit a request; None if the gate is closed or refuses it."""
        if not self.is_open or self._objection(event) is not None:
            return None
        return self._with(event)

    def _with(self, event: RequestArrived) -> Self:
        return type(self)(
            exports_scope_only=self.exports_scope_only,
            is_open=True,
            admitted=self.admitted.added(event),
            waiting=self.waiting,
            bindings=self.bindings.claimed((event.session_id,)),
        )

    def _objection(self, event: RequestArrived) -> str | None:
        # A close is never refused: it cannot harm, and it must not get lost.
        if event.path == CLOSE_PATH:
            return None
        return self.bindings.objection(event.session_id, event.episode)

    def _refuses(self, event: RequestArrived, emit: Emit) -> bool:
        detail = self._objection(event)
        if detail is not None:
            _refuse(event.request, detail, emit)
        return detail is not None

    def end(self, event: RequestEnded) -> Self:
        """Take the end of a request, and from its status what became of the session."""
        arrived = self.admitted.get(event.request)
        if arrived is None:
            waiting = self.waiting.removed(event.request)
            if waiting is self.waiting:
                return self
            return attrs.evolve(self, waiting=waiting)
        bindings, session = self.bindings, event.session_id
        # Only success: a seed that failed has made nothing, a verify that failed is
        # tried again on the same session.
        if event.status is not None and 200 <= event.status < 300:
            if arrived.path == SEED_PATH and arrived.episode is not None:
                bindings = bindings.bound({session: arrived.episode})
            elif arrived.path in _ENDING_PATHS:
                bindings = bindings.ended(session)
        return type(self)(
            exports_scope_only=self.exports_scope_only,
            is_open=self.is_open,
            admitted=self.admitted.removed(event.request),
            waiting=self.waiting,
            bindings=bindings,
        )

    def make(self, event: SessionsMade, emit: Emit) -> Self:
        """Bind what a request makes, or refuse it if one of its attempts is retired."""
        if event.request not in self.admitted:
            return self
        if not any(map(self.bindings.retired.covers, event.sessions.values())):
            return attrs.evolve(self, bindings=self.bindings.bound(event.sessions))
        _refuse(event.request, "one of these attempts has been retired", emit)
        return attrs.evolve(self, admitted=self.admitted.removed(event.request))

    def sweep(self, event: IdleFound, emit: Emit) -> Self:
        """Drop idle sessions, but none that a checkpoint or a request needs."""
        # While the gate is closed a checkpoint may be about to export any of them.
        needed = self.busy() | self.bindings.leaving.keys()
        idle = tuple(s for s in event.session_ids if s not in needed)
        if not self.is_open or not idle:
            return self
        emit(Sweep(idle))
        return self.removed(idle)

    def close(self, now: float, deadline: float, emit: Emit) -> Self:
        """Make all later requests wait."""
        del now, deadline, emit
        return attrs.evolve(self, is_open=False)

    def open(self, now: float, emit: Emit) -> Self:
        """Admit all waiting requests, in the order of their arrival."""
        del now
        # All in one event, so that no later one can overtake them: what an agent sent
        # first has to take effect first. Their attempts may have been retired while
        # they waited, so each is looked at again.
        entering: list[RequestArrived] = []
        for event in self.waiting.events():
            if not self._refuses(event, emit):
                emit(Admit(event.request))
                entering.append(event)
        return attrs.evolve(
            self,
            is_open=True,
            admitted=WaitingRequests.of((*self.admitted.events(), *entering)),
            waiting=WaitingRequests(),
            bindings=self.bindings.claimed(event.session_id for event in entering),
        )

    @property
    def is_ready(self) -> bool:
        """No request is in flight and no session of a retired attempt is left."""
        return not self.admitted and not self.bindings.leaving

    def report(self) -> Readiness:
        """Count requests and sessions; blockers are episodes still being freed."""
        return Readiness(
            ready=self.is_ready,
            blockers=self.bindings.blockers(),
            counts={"inflight": len(self.admitted), "sessions": len(self.sessions)},
        )

    def status(self) -> Mapping[str, object]:
        """Say how sessions are carried, and how many are refused."""
        retired = len(self.retired.sessions)
        return {"mode": MODE, "verify": VERIFY, "retired_sessions": retired}

    # Commit

    def select(self, scope: frozenset[str] | None) -> Selection:
        """Name live sessions, whatever the scope is, and unused ones of the scope."""
        sessions = self.bindings.exportable(scope)
        leaked = self.bindings.leaked(scope)
        if self.exports_scope_only:
            left_out = frozenset(leaked)
            sessions = tuple(one for one in sessions if one not in left_out)
        return Selection(keys=sessions, leaked=leaked)

    def exported(
        self, selection: Selection, states: Mapping[str, object]
    ) -> tuple[Self, tuple[SessionRecord, ...]]:
        """Make the records; sessions without a state (a failed verify) are forgotten."""
        # A session without a state could not be restored, and a commit that failed for
        # it would fail at every retry.
        found = [session for session in selection.keys if session in states]
        gone = [session for session in selection.keys if session not in states]
        records = (SessionRecord(self.sessions[s], s, states[s]) for s in found)
        return self.removed(gone), tuple(records)

    def unwanted(self, scope: frozenset[str] | None) -> tuple[str, ...]:
        """Name restored sessions that nothing has used and the scope gives up."""
        return self.bindings.unwanted(scope)

    def removed(self, keys: Sequence[str]) -> Self:
        """Stop to track sessions whose state is gone."""
        return attrs.evolve(self, bindings=self.bindings.untracked(keys))

    # Restore

    @property
    def is_fresh(self) -> bool:
        """No session is tracked and no request is in flight."""
        return not self.sessions and not self.admitted

    def objection(self) -> str | None:
        """Refuse to mix restored sessions with others."""
        if self.is_fresh:
            return None
        return "only a process without sessions and requests in flight can restore"

    def install(
        self,
        records: Sequence[CheckpointRecord],
        scope: Sequence[EpisodeId],
        number: int,
        emit: Emit,
    ) -> Self:
        """Track restored sessions, closed to requests until the resume."""
        del scope, number
        restored = cast("Sequence[SessionRecord]", records)  # as this kind reads them
        emit(Install({record.session_id: record.state for record in restored}))
        # Each under its next attempt: what the interrupted one may still send is refused.
        episodes = {one.session_id: one.episode_id.next_attempt for one in restored}
        bindings = self.bindings.installed(episodes)
        return attrs.evolve(self, is_open=False, bindings=bindings)

    # Retire

    def marked(self, attempts: Mapping[str, int]) -> Self:
        """Retire these attempts and all earlier ones, with their sessions."""
        return attrs.evolve(self, bindings=self.bindings.marked(attempts))

    def leaving(self, attempts: Mapping[str, int]) -> bool:
        """Tell whether sessions of these attempts are not freed, or may yet be made."""
        # A seed in flight may make one, which is then retired as well.
        is_seeding = any(
            event.path == SEED_PATH
            and event.episode is not None
            and is_among(event.episode, attempts)
            for event in self.admitted.events()
        )
        return is_seeding or bool(self.bindings.leaving_of(attempts))

    def freeing(
        self, attempts: Mapping[str, int], number: int, now: float, emit: Emit
    ) -> Self:
        """Free the sessions of these attempts that no request uses."""
        del now
        # A request inside still works with its session's state; that one is freed when
        # the request has ended.
        busy, leaving = self.busy(), self.bindings.leaving
        idle = tuple(
            session
            for session in self.bindings.leaving_of(attempts)
            if leaving[session] is None and session not in busy
        )
        if not idle:
            return self
        emit(Free(number, idle))
        return attrs.evolve(self, bindings=self.bindings.removing(number, idle))

    def freed(self, removal: int) -> Self:
        """Stop to track sessions that hold nothing any more."""
        gone = self.bindings.removed_by(removal)
        return self.removed(gone) if gone else self

    def forgotten(self, rollouts: frozenset[str]) -> Self:
        """Drop the marks of these rollouts, and what is known of their sessions."""
        retired = self.retired.forgotten(rollouts)
        bindings = attrs.evolve(self.bindings, retired=retired)
        return attrs.evolve(self, bindings=bindings)

    def busy(self) -> frozenset[str]:
        """Name the sessions with a request in flight."""
        return frozenset(event.session_id for event in self.admitted.events())


def _refuse(request: int, detail: str, emit: Emit) -> None:
    code = "stale_attempt"
    emit(Refuse(request, STATUS_OF[code], code, detail))
