"""Admission of data requests, and the sessions learnt from their outcomes.

Requests that arrive while the gate is closed wait and are not counted. What a session is
bound to follows from requests and their status alone (spec control-plane, section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import attrs

from ipistate.checkpoint.actions import STATUS_OF, Action, Admit, Refuse
from ipistate.checkpoint.episode import EpisodeId
from ipistate.checkpoint.events import RequestArrived, RequestEnded
from ipistate.checkpoint.report import Report


Emit: TypeAlias = Callable[[Action], None]

SEED_PATH: Final = "/seed_session"
CLOSE_PATH: Final = "/close_session"
_ENDING_PATHS: Final = frozenset({"/verify", CLOSE_PATH})
_NONE: Final[Mapping[Any, Any]] = MappingProxyType({})


@attrs.frozen
class Gate:
    """Who may enter, who is inside, and which sessions exist."""

    is_open: bool = True
    admitted: Mapping[int, RequestArrived] = _NONE
    """Requests in flight, by their number."""
    waiting: Mapping[int, RequestArrived] = _NONE
    """Requests that wait for the gate to open, in the order of their arrival."""
    sessions: Mapping[str, EpisodeId] = _NONE
    """The episode that each tracked session is bound to."""
    unclaimed: frozenset[str] = frozenset()
    """Restored sessions that no request has used yet."""

    def arrive(self, event: RequestArrived, emit: Emit) -> Gate:
        """Admit a request, refuse it, or let it wait."""
        if not self.is_open:
            return attrs.evolve(self, waiting={**self.waiting, event.request: event})
        return self._enter((event,), emit)

    def _enter(self, events: Iterable[RequestArrived], emit: Emit) -> Gate:
        admitted, unclaimed = dict(self.admitted), self.unclaimed
        for event in events:
            if self._is_stale(event):
                emit(_stale(event))
                continue
            emit(Admit(event.request))
            admitted[event.request] = event
            if event.session_id in unclaimed:
                unclaimed -= {event.session_id}
        return Gate(True, admitted, _NONE, self.sessions, unclaimed)

    def _is_stale(self, event: RequestArrived) -> bool:
        # Late calls of the attempt that a restored session continues. A close is never
        # refused. Marks of retired attempts belong here, too.
        bound = self.sessions.get(event.session_id)
        named = event.episode
        return (
            named is not None
            and bound is not None
            and named.rollout_id == bound.rollout_id
            and named.attempt < bound.attempt
            and event.path != CLOSE_PATH
        )

    def end(self, event: RequestEnded) -> Gate:
        """Uncount a request and learn from its status; waiting ones just leave."""
        arrived = self.admitted.get(event.request)
        if arrived is None:
            return self._leave(event.request)
        admitted = dict(self.admitted)
        del admitted[event.request]
        sessions, unclaimed = self.sessions, self.unclaimed
        if event.status is not None and 200 <= event.status < 300:
            if arrived.path == SEED_PATH and arrived.episode is not None:
                sessions = {**sessions, event.session_id: arrived.episode}
                unclaimed -= {event.session_id}
            elif arrived.path in _ENDING_PATHS and event.session_id in sessions:
                sessions = _without(sessions, frozenset({event.session_id}))
        return Gate(self.is_open, admitted, self.waiting, sessions, unclaimed)

    def _leave(self, request: int) -> Gate:
        if request not in self.waiting:
            return self
        waiting = {n: event for n, event in self.waiting.items() if n != request}
        return attrs.evolve(self, waiting=waiting)

    def close(self) -> Gate:
        """Let nothing more in."""
        return attrs.evolve(self, is_open=False)

    def open(self, emit: Emit) -> Gate:
        """Let everybody in, those who waited first."""
        return self._enter(self.waiting.values(), emit)

    def report(self) -> Report:
        """Say whether everything stands still."""
        return Report(inflight=len(self.admitted), sessions=len(self.sessions))

    @property
    def is_fresh(self) -> bool:
        """No session is tracked and no request is in flight."""
        return not self.sessions and not self.admitted

    def exportable(self, scope: frozenset[str] | None) -> tuple[str, ...]:
        """Name the sessions that belong into a checkpoint.

        Live sessions always do; the scope only filters restored ones that nothing has
        claimed (spec control-plane, section 3.7).
        """
        return tuple(
            session
            for session, episode in self.sessions.items()
            if scope is None
            or session not in self.unclaimed
            or episode.capture_key in scope
        )

    def forget(self, sessions: Iterable[str]) -> Gate:
        """Stop tracking sessions whose state is gone."""
        gone = frozenset(sessions)
        rest = _without(self.sessions, gone)
        return attrs.evolve(self, sessions=rest, unclaimed=self.unclaimed - gone)

    def install(self, sessions: Mapping[str, EpisodeId]) -> Gate:
        """Track restored sessions, closed to requests until the resume."""
        return Gate(False, self.admitted, self.waiting, sessions, frozenset(sessions))


def _without(
    sessions: Mapping[str, EpisodeId], gone: frozenset[str]
) -> Mapping[str, EpisodeId]:
    return {s: episode for s, episode in sessions.items() if s not in gone}


def _stale(event: RequestArrived) -> Refuse:
    code = "stale_attempt"
    detail = "the session belongs to a later attempt of this rollout"
    return Refuse(event.request, STATUS_OF[code], code, detail)
