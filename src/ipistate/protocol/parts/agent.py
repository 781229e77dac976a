"""The part of an agent: sessions, their activations, and ``/run`` episodes.

See docs/reference/control-plane.md, section 6
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeAlias, cast

import attrs

from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.events import PartEvent
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
)
from ipistate.protocol.parts.agent_sessions import (
    AgentSession,
    SessionState,
)
from ipistate.protocol.parts.live_agent import LiveAgent
from ipistate.protocol.parts.part import Emit, Readiness, Selection
from ipistate.protocol.parts.retired_attempts import is_among
from ipistate.protocol.records import CheckpointRecord
from ipistate.protocol.steps.episode_records import AgentSessionRecord
from ipistate.protocol.steps.events import (
    EpisodeEnded,
    EpisodeEvent,
    EpisodeRetired,
    StepsClosed,
    StepsOpened,
)


Record: TypeAlias = AgentSessionRecord[Any]


@attrs.frozen(kw_only=True)
class AgentPart(LiveAgent):
    """What the control machine asks of an agent, beside its data plane."""

    kind: ClassVar[str] = "agent"

    @property
    def is_ready(self) -> bool:
        """No seed runs, no session blocks, no ``/run`` episode blocks."""
        return not self.seeds and not self.sessions.blocking and self.steps.is_ready

    def take(self, event: PartEvent, now: float, emit: Emit) -> Self:
        """Take an arrival, or an event of an activation or of a ``/run`` episode."""
        match event:
            case AgentRunArrived():
                return self.run(event, now, emit)
            case SeedArrived():
                return self.seed(event, emit)
            case SeedEnded():
                return self.seeded(event, emit)
            case ActivationArrived():
                return self.activate(event, emit)
            case LoopReached() | ModelAsked() | ModelReplied():
                return self.move(event, emit)
            case ActivationEnded():
                return self.ended(event, emit)
            case CloseArrived():
                return self.end(event, emit)
            case RequestLeft():
                return self.left(event)
            case EpisodeEnded():
                return self.step(event, now, emit).run_ended(event)
            case _:
                return self.step(cast("EpisodeEvent", event), now, emit)

    def leaves(self, event: PartEvent) -> bool:
        """Tell whether a client goes away whose seed waits."""
        return isinstance(event, RequestLeft) and event.request in self.waiting

    # Admission

    def close(self, now: float, deadline: float, emit: Emit) -> Self:
        """Refuse new runs, let seeds wait, and hold what reaches a boundary."""
        del deadline
        return self.step(StepsClosed(), now, emit)

    def open(self, now: float, emit: Emit) -> Self:
        """Let go on what waits: runs, activations, then seeds."""
        after = self.step(StepsOpened(), now, emit)
        freed: dict[str, AgentSession] = {}
        for key in sorted(key for key, one in self.sessions.items() if one.waits):
            if not self.sessions[key].is_retired:
                emit(LoopProceeds(key))
                freed[key] = self.sessions[key].running()
        after = attrs.evolve(
            after,
            sessions=after.sessions.updated(freed),
            waiting={},
            awaits_resume=False,
        )
        for seed in self.waiting.values():
            after = after.seed(seed, emit)
        return after

    def report(self) -> Readiness:
        """Count sessions; blockers are what runs between two boundaries, or ends."""
        counted = [one.state for one in self.sessions.values()]
        return Readiness(
            ready=self.is_ready,
            blockers=() if self.is_ready else self._blockers(),
            counts={
                "sessions": len(counted),
                "at_boundary": counted.count(SessionState.AT_BOUNDARY),
            },
            restarts=self._capture_keys(self.steps.restarts()),
        )

    def _blockers(self) -> tuple[str, ...]:
        blocking = [key for key, one in self.sessions.items() if one.blocks]
        keys = {
            *self._capture_keys(blocking),
            *self._capture_keys(self.steps.blockers()),
        }
        seeds = {seed.episode.capture_key for seed in self.seeds.values()}
        return tuple(sorted(keys | seeds))

    def _capture_keys(self, keys: Sequence[str]) -> tuple[str, ...]:
        sessions = (self.sessions[key] for key in keys)
        return tuple(sorted({one.episode.capture_key for one in sessions}))

    def status(self) -> Mapping[str, object]:
        """Say whether new sessions are admitted."""
        return {"accepting": self.is_open}

    # Commit

    def select(self, scope: frozenset[str] | None) -> Selection:
        """Take every session that can be continued, and unused ones of the scope."""
        left_out = frozenset(self.unwanted(scope))
        episodes = self.steps.exported()
        return Selection(
            records=tuple(
                AgentSessionRecord(
                    episode_id=session.episode,
                    session_key=key,
                    session=session.own,
                    boundary=session.loop,
                    episode=session.run if session.is_pending else episodes.get(key),
                )
                for key, session in sorted(self.sessions.items())
                if not session.is_retired
                and not self.is_restart(key)
                and key not in left_out
            )
        )

    def unwanted(self, scope: frozenset[str] | None) -> tuple[str, ...]:
        """Name restored sessions that nothing has used and the scope gives up."""
        if scope is None:
            return ()
        return tuple(
            sorted(
                key
                for key, session in self.sessions.items()
                if session.is_pending and session.episode.capture_key not in scope
            )
        )

    def removed(self, keys: Sequence[str]) -> Self:
        """Drop restored sessions; no mark stays."""
        sessions = self.sessions
        for key in keys:
            sessions = sessions.without(key)
        return attrs.evolve(self, sessions=sessions)

    # Restore

    def objection(self) -> str | None:
        """Refuse to mix restored sessions with others."""
        if not self.sessions and not self.seeds:
            return None
        return "only a process without sessions and seeds in progress can restore"

    def install(
        self,
        records: Sequence[CheckpointRecord],
        scope: Sequence[EpisodeId],
        number: int,
        emit: Emit,
    ) -> Self:
        """Make restored sessions, each of its next attempt, closed until the resume."""
        del scope, number, emit
        found = cast("Sequence[Record]", records)  # as this kind reads them
        sessions = self.sessions
        for record in found:
            restored = AgentSession(
                episode=record.episode_id.next_attempt,
                own=record.session,
                continuation=record.boundary,
                run=record.episode,
                is_pending=True,
            )
            sessions = sessions.put(record.session_key, restored)
        steps = attrs.evolve(self.steps, is_open=False)
        return attrs.evolve(self, steps=steps, sessions=sessions, awaits_resume=True)

    # Retire

    def marked(self, attempts: Mapping[str, int]) -> Self:
        """Refuse these attempts and all earlier ones."""
        return attrs.evolve(self, retired=self.retired.marked(attempts))

    def leaving(self, attempts: Mapping[str, int]) -> bool:
        """Tell whether a session of these attempts is there, or may yet be made."""
        seeding = (is_among(seed.episode, attempts) for seed in self.seeds.values())
        return any(seeding) or any(self._covered(attempts))

    def freeing(
        self, attempts: Mapping[str, int], number: int, now: float, emit: Emit
    ) -> Self:
        """Cancel what runs, once; drop sessions in which nothing runs."""
        del number
        after = self
        for key in tuple(self._covered(attempts)):
            after = after._freeing(key, now, emit)
        return after

    def _freeing(self, key: str, now: float, emit: Emit) -> Self:
        after, session = self, self.sessions[key]
        if not session.is_retired:
            if session.is_active and not session.is_ending:
                emit(CancelActivation(key))
            session = attrs.evolve(session, is_retired=True)
            after = after.put(key, session)
        if key in self.steps.live:
            if self.steps.is_retiring((key,)):
                return after
            return after.step(EpisodeRetired(key), now, emit)
        return after if session.is_active else after.without(key)

    def _covered(self, attempts: Mapping[str, int]) -> Iterator[str]:
        return (
            key
            for key, session in self.sessions.items()
            if is_among(session.episode, attempts)
        )

    def forgotten(self, rollouts: frozenset[str]) -> Self:
        """Drop the marks of these rollouts."""
        return attrs.evolve(self, retired=self.retired.forgotten(rollouts))
