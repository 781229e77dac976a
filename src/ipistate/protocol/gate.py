"""Admission of data requests, and what their outcomes say about sessions.

Requests that arrive while the gate is closed wait and are not counted. What a session is
bound to follows from requests and their status alone (docs/reference/control-plane.md, section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

import attrs

from ipistate.kernel import JsonObject
from ipistate.protocol.actions import STATUS_OF, Action, Admit, Refuse, Sweep
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.events import (
    IdleFound,
    RequestArrived,
    RequestEnded,
    SessionsMade,
)
from ipistate.protocol.retired_attempts import is_among
from ipistate.protocol.session_registry import SessionRegistry
from ipistate.protocol.waiting_requests import WaitingRequests
from ipistate.protocol.wire import CLOSE_PATH, SEED_PATH, VERIFY_PATH


Emit: TypeAlias = Callable[[Action], None]

_ENDING_PATHS: Final = frozenset({VERIFY_PATH, CLOSE_PATH})


@attrs.frozen(kw_only=True)
class Gate:
    """Which requests may enter, which are inside, and which sessions exist."""

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

    def arrive(self, event: RequestArrived, emit: Emit) -> Gate:
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

    def enter(self, event: RequestArrived) -> Gate | None:
        """Admit a request; None if the gate is closed or refuses it."""
        if not self.is_open or self._objection(event) is not None:
            return None
        return self._with(event)

    def _with(self, event: RequestArrived) -> Gate:
        return Gate(
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

    def end(self, event: RequestEnded) -> Gate:
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
        return Gate(
            is_open=self.is_open,
            admitted=self.admitted.removed(event.request),
            waiting=self.waiting,
            bindings=bindings,
        )

    def make(self, event: SessionsMade, emit: Emit) -> Gate:
        """Bind what a request makes, or refuse it if one of its attempts is retired."""
        if event.request not in self.admitted:
            return self
        if not any(map(self.bindings.retired.covers, event.sessions.values())):
            return attrs.evolve(self, bindings=self.bindings.bound(event.sessions))
        _refuse(event.request, "one of these attempts has been retired", emit)
        return attrs.evolve(self, admitted=self.admitted.removed(event.request))

    def sweep(self, event: IdleFound, emit: Emit) -> Gate:
        """Drop idle sessions, but none that a checkpoint or a request needs."""
        # While the gate is closed a checkpoint may be about to export any of them.
        needed = self.busy() | self.bindings.leaving.keys()
        idle = tuple(s for s in event.session_ids if s not in needed)
        if not self.is_open or not idle:
            return self
        emit(Sweep(idle))
        return self.untrack(idle)

    def close(self) -> Gate:
        """Make all later requests wait."""
        return attrs.evolve(self, is_open=False)

    def open(self, emit: Emit) -> Gate:
        """Admit all waiting requests, in the order of their arrival."""
        # All in one event, so that no later one can overtake them: what an agent sent
        # first has to take effect first. Their attempts may have been retired while
        # they waited, so each is looked at again.
        entering: list[RequestArrived] = []
        for event in self.waiting.events():
            if not self._refuses(event, emit):
                emit(Admit(event.request))
                entering.append(event)
        admitted = WaitingRequests.of((*self.admitted.events(), *entering))
        bindings = self.bindings.claimed(event.session_id for event in entering)
        return Gate(admitted=admitted, bindings=bindings)

    def report(self) -> Readiness:
        """Say whether nothing runs and nothing blocks."""
        return Readiness(
            inflight=len(self.admitted),
            sessions=len(self.sessions),
            blockers=self.bindings.blockers(),
        )

    @property
    def is_fresh(self) -> bool:
        """No session is tracked and no request is in flight."""
        return not self.sessions and not self.admitted

    def install(self, sessions: Mapping[str, EpisodeId]) -> Gate:
        """Track restored sessions, closed to requests until the resume."""
        bindings = self.bindings.installed(sessions)
        return attrs.evolve(self, is_open=False, bindings=bindings)

    def untrack(self, sessions: Iterable[str]) -> Gate:
        """Stop to track sessions whose state is gone."""
        return attrs.evolve(self, bindings=self.bindings.untracked(tuple(sessions)))

    def is_seeding(self, attempts: Mapping[str, int]) -> bool:
        """Tell whether a seed of these attempts, or earlier ones, is in flight."""
        return any(
            event.path == SEED_PATH
            and event.episode is not None
            and is_among(event.episode, attempts)
            for event in self.admitted.events()
        )

    def busy(self) -> frozenset[str]:
        """Name the sessions with a request in flight."""
        return frozenset(event.session_id for event in self.admitted.events())


MAX_BLOCKERS: Final = 100
"""Blockers that a report names; more are counted."""


@attrs.frozen(kw_only=True)
class Readiness:
    """Readiness of a participant (docs/reference/control-plane.md, sections 2.9 and 3.5).

    ``blockers`` are the capture keys of episodes whose state is still being freed.
    """

    inflight: int
    sessions: int
    blockers: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Nothing runs and nothing blocks."""
        return not self.inflight and not self.blockers

    def to_document(self) -> JsonObject:
        """Write the report as replies show it; the list of blockers is capped."""
        return JsonObject(
            {
                "ready": self.ready,
                "blockers": self.blockers[:MAX_BLOCKERS],
                "blocker_count": len(self.blockers),
                "counts": {"inflight": self.inflight, "sessions": self.sessions},
                "restarts": (),
            }
        )


def _refuse(request: int, detail: str, emit: Emit) -> None:
    code = "stale_attempt"
    emit(Refuse(request, STATUS_OF[code], code, detail))
