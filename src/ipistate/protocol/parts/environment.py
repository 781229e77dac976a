"""The part of an environment server: the live episodes, and those that were restored.

Its data plane has one route, ``/run``. An episode that runs is an entry of the steps
engine; one that was restored waits for its controller to send it again.
See docs/reference/control-plane.md, section 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self, TypeAlias, cast

import attrs

from ipistate.protocol.actions import STATUS_OF, PartAction, Refuse
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.events import PartEvent
from ipistate.protocol.parts.part import Emit, PlainPart, Readiness, Selection
from ipistate.protocol.parts.retired_attempts import RetiredAttempts, is_among
from ipistate.protocol.records import CheckpointRecord
from ipistate.protocol.steps.engine import EpisodeSteps, handle
from ipistate.protocol.steps.episode_records import EnvironmentRecord
from ipistate.protocol.steps.events import (
    EpisodeArrived,
    EpisodeEnded,
    EpisodeEvent,
    EpisodeRetired,
    StepsClosed,
    StepsOpened,
)


Record: TypeAlias = EnvironmentRecord[Any]

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


@attrs.frozen(kw_only=True)
class RunArrived(PartEvent):
    """A ``/run`` has arrived; answered by ``StartEpisode`` or by ``Refuse``.

    ``budget`` is the episode's time in seconds, None for no limit. An episode whose
    protocol records no boundaries is a restart.
    """

    request: int
    episode: EpisodeId
    task_digest: str
    is_restart: bool = False
    budget: float | None = None


@attrs.frozen
class StartEpisode(PartAction):
    """Start the task of an episode; it runs after the engine's ``Proceed``.

    ``boundary`` is the restored one that it continues from, None to start over.
    """

    request: int
    key: str
    boundary: object


@attrs.frozen
class LiveRun:
    """What the engine does not know of an episode that runs."""

    episode: EpisodeId
    task_digest: str


def stepped(
    steps: EpisodeSteps, event: EpisodeEvent, now: float, emit: Emit
) -> EpisodeSteps:
    """Hand an event to the engine, and its actions on."""
    steps, actions = handle(steps, event, now)
    for action in actions:
        emit(action)
    return steps


@attrs.frozen(kw_only=True)
class EnvironmentPart(PlainPart):
    """Live episodes by capture key, and restored ones that nobody has sent again."""

    kind: ClassVar[str] = "environment"

    steps: EpisodeSteps = attrs.Factory(EpisodeSteps)
    runs: Mapping[str, LiveRun] = _NONE
    """Of every entry of the engine, by its key."""
    restored: Mapping[str, Record] = _NONE
    """Records by the capture key of the attempt that may continue them."""
    awaits_resume: bool = False
    """A restore is not resumed yet."""
    retired: RetiredAttempts = attrs.Factory(RetiredAttempts)

    @property
    def is_open(self) -> bool:
        """Whether new episodes are admitted."""
        return self.steps.is_open

    @property
    def is_ready(self) -> bool:
        """No episode blocks."""
        return self.steps.is_ready

    def take(self, event: PartEvent, now: float, emit: Emit) -> Self:
        """Take the arrival of an episode, or an event of the engine."""
        match event:
            case RunArrived():
                return self._arrive(event, now, emit)
            case EpisodeEnded(key):
                runs = {name: run for name, run in self.runs.items() if name != key}
                return attrs.evolve(self._step(event, now, emit), runs=runs)
            case _:
                return self._step(cast("EpisodeEvent", event), now, emit)

    def _step(self, event: EpisodeEvent, now: float, emit: Emit) -> Self:
        return attrs.evolve(self, steps=stepped(self.steps, event, now, emit))

    def _arrive(self, event: RunArrived, now: float, emit: Emit) -> Self:
        key = event.episode.capture_key
        record = self.restored.get(key)
        problem = self._problem(event, record)
        if problem is not None:
            code, detail = problem
            emit(Refuse(event.request, STATUS_OF[code], code, detail))
            return self
        boundary = None if record is None else record.boundary
        emit(StartEpisode(event.request, key, boundary))
        arrived = EpisodeArrived(
            key=key,
            boundary=boundary,
            is_restart=event.is_restart,
            budget=event.budget,
        )
        after = self._step(arrived, now, emit)
        run = LiveRun(event.episode, event.task_digest)
        return attrs.evolve(
            after,
            runs={**self.runs, key: run},
            restored={n: one for n, one in self.restored.items() if n != key},
        )

    def _problem(
        self, event: RunArrived, record: Record | None
    ) -> tuple[str, str] | None:
        # In this order (docs/reference/control-plane.md, section 6).
        key = event.episode.capture_key
        if self.retired.covers(event.episode):
            return "stale_attempt", "this attempt has been retired"
        if not self.is_open and (record is None or self.awaits_resume):
            return "admission_closed", "a checkpoint is open; send it again after that"
        if record is not None and record.task_digest != event.task_digest:
            detail = f"{key} was restored with another task"
            return "checkpoint_error", detail
        if key in self.runs:
            return "checkpoint_error", f"{key} is running already"
        return None

    def close(self, now: float, deadline: float, emit: Emit) -> Self:
        """Refuse new episodes; live ones park at their next boundary."""
        del deadline
        return self._step(StepsClosed(), now, emit)

    def open(self, now: float, emit: Emit) -> Self:
        """Admit episodes, and let the parked ones go on."""
        opened = self._step(StepsOpened(), now, emit)
        return attrs.evolve(opened, awaits_resume=False)

    def report(self) -> Readiness:
        """Count episodes; blockers are those that run between two boundaries."""
        return Readiness(
            ready=self.is_ready,
            blockers=() if self.is_ready else self.steps.blockers(),
            counts={"episodes": len(self.runs)},
            restarts=self.steps.restarts(),
        )

    def status(self) -> Mapping[str, object]:
        """Name what was restored and not sent again."""
        return {"restored_pending": sorted(self.restored)}

    # Commit

    def select(self, scope: frozenset[str] | None) -> Selection:
        """Take every episode that can be continued, and unused ones of the scope."""
        live = (self._record(*one) for one in self.steps.exported().items())
        pending = (
            attrs.evolve(record, episode_id=record.episode_id.next_attempt)
            for key, record in sorted(self.restored.items())
            if scope is None or key in scope
        )
        return Selection(records=(*live, *pending))

    def _record(self, key: str, boundary: object) -> Record:
        run = self.runs[key]
        return EnvironmentRecord(
            episode_id=run.episode, task_digest=run.task_digest, boundary=boundary
        )

    def unwanted(self, scope: frozenset[str] | None) -> tuple[str, ...]:
        """Name restored episodes that nobody has sent again and the scope gives up."""
        if scope is None:
            return ()
        return tuple(sorted(self.restored.keys() - scope))

    def removed(self, keys: Sequence[str]) -> Self:
        """Drop restored episodes; no mark stays."""
        gone = frozenset(keys)
        kept = {key: one for key, one in self.restored.items() if key not in gone}
        return attrs.evolve(self, restored=kept)

    # Restore

    def objection(self) -> str | None:
        """Refuse to mix restored episodes with others."""
        if not self.runs and not self.restored:
            return None
        return "only a process without episodes can restore"

    def install(
        self,
        records: Sequence[CheckpointRecord],
        scope: Sequence[EpisodeId],
        number: int,
        emit: Emit,
    ) -> Self:
        """Keep records until their next attempts are sent, closed until the resume."""
        del scope, number, emit
        found = cast("Sequence[Record]", records)  # as this kind reads them
        return attrs.evolve(
            self,
            steps=attrs.evolve(self.steps, is_open=False),
            restored={one.episode_id.next_attempt.capture_key: one for one in found},
            awaits_resume=True,
        )

    # Retire

    def marked(self, attempts: Mapping[str, int]) -> Self:
        """Refuse these attempts and all earlier ones."""
        return attrs.evolve(self, retired=self.retired.marked(attempts))

    def leaving(self, attempts: Mapping[str, int]) -> bool:
        """Tell whether an episode of these attempts is live, or restored."""
        return any(self._live(attempts)) or any(self._restored(attempts))

    def freeing(
        self, attempts: Mapping[str, int], number: int, now: float, emit: Emit
    ) -> Self:
        """Cancel live episodes once, and drop restored ones when those are gone."""
        del number
        live, steps = tuple(self._live(attempts)), self.steps
        if not live:
            return self.removed(tuple(self._restored(attempts)))
        for key in live:
            if not steps.is_retiring((key,)):
                steps = stepped(steps, EpisodeRetired(key), now, emit)
        return self if steps is self.steps else attrs.evolve(self, steps=steps)

    def _live(self, attempts: Mapping[str, int]) -> Iterator[str]:
        runs: Iterable[tuple[str, LiveRun]] = self.runs.items()
        return (key for key, run in runs if is_among(run.episode, attempts))

    def _restored(self, attempts: Mapping[str, int]) -> Iterator[str]:
        # A record is of the attempt that may continue it, not of the one it had.
        return (
            key
            for key, record in self.restored.items()
            if is_among(record.episode_id.next_attempt, attempts)
        )

    def forgotten(self, rollouts: frozenset[str]) -> Self:
        """Drop the marks of these rollouts."""
        return attrs.evolve(self, retired=self.retired.forgotten(rollouts))
