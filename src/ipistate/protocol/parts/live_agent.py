"""The data plane of an agent: seeds, activations, closes, and ``/run`` episodes.

See docs/reference/control-plane.md, section 6
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Self, TypeAlias

import attrs

from ipistate.protocol.actions import STATUS_OF, Admit, Refuse
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.parts.agent_events import (
    ActivationArrived,
    ActivationEnded,
    AgentRunArrived,
    CancelActivation,
    CloseArrived,
    LoopProceeds,
    LoopReached,
    ModelAsked,
    ModelReplied,
    RequestLeft,
    SeedArrived,
    SeedEnded,
    SessionClosed,
    SessionOpened,
    StartActivation,
)
from ipistate.protocol.parts.agent_sessions import (
    AgentSession,
    AgentSessionMap,
    run_key,
)
from ipistate.protocol.parts.environment import StartEpisode, stepped
from ipistate.protocol.parts.part import Emit, PlainPart
from ipistate.protocol.parts.retired_attempts import RetiredAttempts
from ipistate.protocol.steps.engine import EpisodeSteps
from ipistate.protocol.steps.episode_records import AgentSessionRecord
from ipistate.protocol.steps.events import (
    EpisodeArrived,
    EpisodeEnded,
    EpisodeEvent,
)


Record: TypeAlias = AgentSessionRecord[Any]

_NO_SEEDS: Final[Mapping[int, SeedArrived]] = MappingProxyType({})


@attrs.frozen(kw_only=True)
class LiveAgent(PlainPart):
    """Sessions by key, seeds that run or wait, and the episodes of ``/run``."""

    steps: EpisodeSteps = attrs.Factory(EpisodeSteps)
    """The ``/run`` episodes, by their session keys."""
    sessions: AgentSessionMap = attrs.Factory(AgentSessionMap)
    seeds: Mapping[int, SeedArrived] = _NO_SEEDS
    """Admitted seeds; their sessions do not exist yet."""
    waiting: Mapping[int, SeedArrived] = _NO_SEEDS
    """Seeds that wait for the resume, in the order of their arrival."""
    awaits_resume: bool = False
    """A restore is not resumed yet."""
    retired: RetiredAttempts = attrs.Factory(RetiredAttempts)

    @property
    def is_open(self) -> bool:
        """Whether new sessions and ``/run`` episodes are admitted."""
        return self.steps.is_open

    def step(self, event: EpisodeEvent, now: float, emit: Emit) -> Self:
        """Hand an event to the steps engine."""
        return attrs.evolve(self, steps=stepped(self.steps, event, now, emit))

    def put(self, key: str, session: AgentSession) -> Self:
        """Keep a session."""
        return attrs.evolve(self, sessions=self.sessions.put(key, session))

    def without(self, key: str) -> Self:
        """Drop a session."""
        return attrs.evolve(self, sessions=self.sessions.without(key))

    def is_restart(self, key: str) -> bool:
        """Tell whether a ``/run`` cannot be captured."""
        entry = self.steps.live.get(key)
        return entry is not None and entry.is_restart

    def admits(self, session: AgentSession | None) -> bool:
        """Tell whether new work of a session is let in."""
        # What continues a restored session may come after its resume, whatever is open.
        if self.is_open:
            return True
        return session is not None and session.is_pending and not self.awaits_resume

    def stale(self, episode: EpisodeId, session: AgentSession | None) -> str | None:
        """Say why work of an episode belongs to another attempt."""
        if self.retired.covers(episode):
            return "this attempt has been retired"
        if session is not None and (session.episode != episode or session.is_retired):
            return "the session belongs to another attempt of this rollout"
        return None

    # Runs

    def run(self, event: AgentRunArrived, now: float, emit: Emit) -> Self:
        """Take the arrival of a ``/run``."""
        key = run_key(event.episode)
        session = self.sessions.get(key)
        stale = self.stale(event.episode, session)
        if stale is not None:
            return self.refuse(event.request, "stale_attempt", stale, emit)
        if not self.admits(session):
            detail = "a checkpoint is open; send it again after that"
            return self.refuse(event.request, "admission_closed", detail, emit)
        if key in self.steps.live or (session is not None and not session.is_pending):
            detail = f"{event.episode.capture_key} is running already"
            return self.refuse(event.request, "checkpoint_error", detail, emit)
        found = session or AgentSession(episode=event.episode)
        emit(StartEpisode(event.request, key, found.run))
        arrived = EpisodeArrived(key=key, boundary=found.run, budget=event.budget)
        claimed = attrs.evolve(found, is_pending=False, run=None)
        return self.put(key, claimed).step(arrived, now, emit)

    def run_ended(self, event: EpisodeEnded) -> Self:
        """Drop the session of a ``/run`` whose task has ended."""
        session = self.sessions.get(event.key)
        if session is None:
            return self
        if session.is_active:
            return self.put(event.key, attrs.evolve(session, is_ending=True))
        return self.without(event.key)

    def refuse(self, request: int, code: str, detail: str, emit: Emit) -> Self:
        """Answer a request with an error; nothing changes."""
        emit(Refuse(request, STATUS_OF[code], code, detail))
        return self

    # Seeds of native sessions

    def seed(self, event: SeedArrived, emit: Emit) -> Self:
        """Take the arrival of a seed, which may have to wait for the resume."""
        session = self.sessions.get(event.key)
        stale = self.stale(event.episode, session)
        if stale is not None:
            return self.refuse(event.request, "stale_attempt", stale, emit)
        if not self.admits(session):
            waiting = {**self.waiting, event.request: event}
            return attrs.evolve(self, waiting=waiting)
        emit(Admit(event.request))
        return attrs.evolve(self, seeds={**self.seeds, event.request: event})

    def seeded(self, event: SeedEnded, emit: Emit) -> Self:
        """Take the end of a seed, and open its session."""
        seed = self.seeds.get(event.request)
        after = attrs.evolve(self, seeds=_without(self.seeds, event.request))
        if seed is None or event.own is None:
            return after
        session = self.sessions.get(seed.key)
        # The attempt may have been retired while its session was made.
        stale = self.stale(seed.episode, session)
        if stale is not None:
            return after.refuse(event.request, "stale_attempt", stale, emit)
        emit(SessionOpened(event.request))
        if session is None:
            session = AgentSession(episode=seed.episode, own=event.own)
        return after.put(seed.key, attrs.evolve(session, is_pending=False))

    def left(self, event: RequestLeft) -> Self:
        """Let a client go that waits with its seed."""
        return attrs.evolve(self, waiting=_without(self.waiting, event.request))

    # Activations

    def activate(self, event: ActivationArrived, emit: Emit) -> Self:
        """Take the arrival of an activation."""
        session = self.sessions.get(event.key)
        stale = self.stale(event.episode, session)
        if stale is not None:
            return self.refuse(event.request, "stale_attempt", stale, emit)
        if session is None or session.is_ending:
            detail = f"there is no session {event.key}"
            return self.refuse(event.request, "checkpoint_error", detail, emit)
        if session.is_active:
            detail = "the session has an activation already"
            return self.refuse(event.request, "checkpoint_error", detail, emit)
        start = StartActivation(
            event.request, event.key, session.continuation, session.own
        )
        emit(start)
        # Also while a checkpoint is open: its caller sent it before, and waits for it.
        started = session.started(is_restart=self.is_restart(event.key))
        return self.put(event.key, started)

    def move(self, event: LoopReached | ModelAsked | ModelReplied, emit: Emit) -> Self:
        """Take a move of the turn loop."""
        session = self.sessions.get(event.key)
        if session is None or not session.is_active or session.is_retired:
            return self  # it has been cancelled, and does not know yet
        match event:
            case LoopReached():
                session = session.reached(event.boundary, is_open=self.is_open)
            case ModelAsked():
                session = session.asked()
            case _:
                session = session.replied(is_open=self.is_open)
        if not session.waits:
            emit(LoopProceeds(event.key))
        return self.put(event.key, session)

    def ended(self, event: ActivationEnded, emit: Emit) -> Self:
        """Take the end of an activation."""
        session = self.sessions.get(event.key)
        if session is None:
            return self
        if not session.is_ending:
            return self.put(event.key, session.ended(event.own))
        for request in session.closers:
            emit(SessionClosed(request))
        return self.without(event.key)

    def end(self, event: CloseArrived, emit: Emit) -> Self:
        """Free a session for its owner, when its activation has ended."""
        session = self.sessions.get(event.key)
        if session is None:
            emit(SessionClosed(event.request))
            return self
        if session.episode != event.episode:
            detail = "the session belongs to another attempt of this rollout"
            return self.refuse(event.request, "stale_attempt", detail, emit)
        if not session.is_active:
            emit(SessionClosed(event.request))
            return self.without(event.key)
        if not session.is_ending and not session.is_retired:
            emit(CancelActivation(event.key))
        closers = (*session.closers, event.request)
        session = attrs.evolve(session, is_ending=True, closers=closers)
        return self.put(event.key, session)


def _without(
    seeds: Mapping[int, SeedArrived], request: int
) -> Mapping[int, SeedArrived]:
    return {number: one for number, one in seeds.items() if number != request}
