"""One episode's task as a value: the protocol's reducer, told to the steps engine.

The task does one thing at a time: it sends an event to the engine and waits for
``Proceed``, or it makes a request and waits for the answer, and in the end it concludes.
A shell only carries these over.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, Protocol, TypeAlias, TypeVar

import attrs

from ipistate.protocol.steps.events import (
    BoundaryReached,
    FinishStarted,
    RestartMarked,
    StepEnded,
    StepMode,
    StepStarted,
    TaskEvent,
)
from ipistate.protocol.steps.exchange import EffectFault, EffectReply, EffectRequest
from ipistate.protocol.steps.failures import EpisodeFailure, EpisodeRefusal
from ipistate.protocol.steps.outcomes import Advanced


S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


class EpisodeProtocol(Protocol[S]):
    """A protocol's rules for one episode: pure functions of a state."""

    def mode(self, state: S) -> StepMode | None:
        """Return what a checkpoint does about a state's step; None at the end."""
        ...

    def is_boundary(self, state: S) -> bool:
        """Tell whether a checkpoint can record a state."""
        ...

    def request(self, state: S) -> EffectRequest:
        """Return the request that a state makes."""
        ...

    def advance(
        self, state: S, answer: EffectReply | EffectFault
    ) -> Advanced[S] | EpisodeFailure | EpisodeRefusal:
        """Take the answer to a state's request."""
        ...

    def cleanup(self, state: S) -> tuple[EffectRequest, ...]:
        """Return the requests that close what may still be open."""
        ...


@attrs.frozen
class EpisodeConclusion(Generic[S_co]):
    """Answer the caller, then make the requests of the clean-up, then ``EpisodeEnded``."""

    outcome: S_co | EpisodeFailure | EpisodeRefusal
    cleanup: tuple[EffectRequest, ...]
    """Outside the episode's time; how they end changes nothing."""


class TaskPhase(StrEnum):
    """What a task waits for."""

    BEGINNING = "beginning"
    AT_BOUNDARY = "at_boundary"
    STARTING = "starting"
    ASKING = "asking"
    MARKING = "marking"
    STEP_OVER = "step_over"
    FINISHING = "finishing"
    OVER = "over"


@attrs.frozen(kw_only=True)
class EpisodeTask(Generic[S]):
    """A task that waits.

    Args:
        key: Of the episode in the steps engine.
        protocol: The rules.
        state: Where the episode begins, or is continued.
    """

    key: str
    protocol: EpisodeProtocol[S]
    state: S
    phase: TaskPhase = TaskPhase.BEGINNING
    failure: EpisodeFailure | EpisodeRefusal | None = None

    def proceeded(self) -> tuple[EpisodeTask[S], TaskAction[S]]:
        """Go on after ``Proceed``.

        Raises:
            TypeError: The task does not wait for it.
        """
        match self.phase:
            case TaskPhase.BEGINNING:
                return self._reach()
            case TaskPhase.AT_BOUNDARY:
                mode = self.protocol.mode(self.state)
                if mode is None:
                    return self._finish()
                return self._to(TaskPhase.STARTING), StepStarted(self.key, mode)
            case TaskPhase.STARTING:
                return self._ask(self.state)
            case TaskPhase.MARKING:
                return self._go_on(self.state)
            case TaskPhase.STEP_OVER:
                return self._reach() if self.failure is None else self._finish()
            case TaskPhase.FINISHING:
                return self._conclude()
            case _:
                raise TypeError(f"{self.key} does not wait to proceed: {self.phase}")

    def answered(
        self, answer: EffectReply | EffectFault
    ) -> tuple[EpisodeTask[S], TaskAction[S]]:
        """Go on after the answer to its request.

        Raises:
            TypeError: The task does not wait for one.
        """
        if self.phase is not TaskPhase.ASKING:
            raise TypeError(f"{self.key} does not wait for an answer: {self.phase}")
        outcome = self.protocol.advance(self.state, answer)
        if not isinstance(outcome, Advanced):
            failed = attrs.evolve(self, failure=outcome, phase=TaskPhase.STEP_OVER)
            return failed, StepEnded(self.key, is_failed=True)
        if not outcome.is_restart:
            return self._go_on(outcome.state)
        marking = attrs.evolve(self, state=outcome.state, phase=TaskPhase.MARKING)
        return marking, RestartMarked(self.key)

    def _to(self, phase: TaskPhase) -> EpisodeTask[S]:
        return attrs.evolve(self, phase=phase)

    def _reach(self) -> tuple[EpisodeTask[S], TaskAction[S]]:
        reached = BoundaryReached(self.key, self.state)
        return self._to(TaskPhase.AT_BOUNDARY), reached

    def _ask(self, state: S) -> tuple[EpisodeTask[S], TaskAction[S]]:
        asking = attrs.evolve(self, state=state, phase=TaskPhase.ASKING)
        return asking, self.protocol.request(state)

    def _go_on(self, state: S) -> tuple[EpisodeTask[S], TaskAction[S]]:
        # A step can be several requests; only between steps is there a boundary.
        if not self.protocol.is_boundary(state):
            return self._ask(state)
        over = attrs.evolve(self, state=state, phase=TaskPhase.STEP_OVER)
        return over, StepEnded(self.key)

    def _finish(self) -> tuple[EpisodeTask[S], TaskAction[S]]:
        return self._to(TaskPhase.FINISHING), FinishStarted(self.key)

    def _conclude(self) -> tuple[EpisodeTask[S], TaskAction[S]]:
        outcome = self.state if self.failure is None else self.failure
        ended = EpisodeConclusion(outcome, self.protocol.cleanup(self.state))
        return self._to(TaskPhase.OVER), ended


TaskAction: TypeAlias = TaskEvent | EffectRequest | EpisodeConclusion[S]
