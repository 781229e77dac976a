"""The steps engine: which episodes a checkpoint waits for, and what it records of them.

``handle(steps, event, now)`` gives another value and actions, as the control machine
does. The rules are those of docs/explanation/protocol.md, and these:

* An episode that arrives while a checkpoint is open is parked where it begins, and a
  replay step that fails then parks its episode, so what is exported stays the same.
* A parked task that has been woken asks again: a new checkpoint may have closed.
* A mark as a restart waits for the end of a checkpoint, but not if that waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs

from ipistate.protocol.actions import STATUS_OF
from ipistate.protocol.steps.actions import (
    ArmDeadline,
    EpisodeAction,
    Proceed,
    RefuseEpisode,
)
from ipistate.protocol.steps.entries import EpisodeEntry, LiveEpisodes, StepState
from ipistate.protocol.steps.events import (
    EpisodeArrived,
    EpisodeEnded,
    EpisodeEvent,
    StepsClosed,
    StepsOpened,
)
from ipistate.protocol.steps.transitions import changed, opened, timed


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Emit: TypeAlias = Callable[[EpisodeAction], None]


@attrs.frozen(kw_only=True)
class EpisodeSteps:
    """The live episodes of one participant. Keys are capture keys or session keys."""

    is_open: bool = True
    live: LiveEpisodes = attrs.Factory(LiveEpisodes)

    @property
    def is_ready(self) -> bool:
        """No episode blocks; costs the same however many there are."""
        return not self.live.blocking

    def blockers(self) -> tuple[str, ...]:
        """Name the episodes that a checkpoint waits for, sorted."""
        return self._keys(lambda entry: entry.blocks)

    def restarts(self) -> tuple[str, ...]:
        """Name the episodes that cannot be captured, sorted."""
        return self._keys(lambda entry: entry.is_reported_restart)

    def exported(self) -> Mapping[str, object]:
        """Return the boundaries that a checkpoint records, sorted by key."""
        keys = self._keys(lambda entry: entry.is_exported)
        return {key: self.live[key].boundary for key in keys}

    def is_retiring(self, keys: Iterable[str]) -> bool:
        """Tell whether one of these episodes was retired and is not gone."""
        return any(key in self.live and self.live[key].is_retired for key in keys)

    def _keys(self, wanted: Callable[[EpisodeEntry], bool]) -> tuple[str, ...]:
        return tuple(sorted(key for key, one in self.live.items() if wanted(one)))


def handle(
    steps: EpisodeSteps, event: EpisodeEvent, now: float
) -> tuple[EpisodeSteps, tuple[EpisodeAction, ...]]:
    """Take one event at a time (seconds since the epoch).

    Events of episodes that are retired or gone may come late and change nothing.

    Returns:
        The episodes after it, and what to do, in order.

    Raises:
        TypeError: A task sends an event that cannot follow its last one.
    """
    actions: list[EpisodeAction] = []
    emit = actions.append
    match event:
        case StepsClosed() | StepsOpened():
            is_open = isinstance(event, StepsOpened)
            steps = _switched(attrs.evolve(steps, is_open=is_open), now, emit)
        case EpisodeArrived():
            steps = _arrive(steps, event, now, emit)
        case EpisodeEnded(key):
            steps = _end(steps, key, emit)
        case _:
            entry = steps.live.get(event.key)
            if entry is not None and not entry.is_retired:
                after = changed(entry, event, now, emit, is_open=steps.is_open)
                after = timed(event.key, after, now, emit, is_open=steps.is_open)
                steps = _with(steps, event.key, after)
    return steps, tuple(actions)


def _arrive(
    steps: EpisodeSteps, event: EpisodeArrived, now: float, emit: Emit
) -> EpisodeSteps:
    if event.key in steps.live:
        code = "checkpoint_error"
        detail = f"{event.key} is running already"
        emit(RefuseEpisode(event.key, STATUS_OF[code], code, detail))
        return steps
    entry = EpisodeEntry(
        state=StepState.RUNNING if steps.is_open else StepState.PARKED,
        boundary=event.boundary,
        is_restart=event.is_restart and steps.is_open,
        becomes_restart=event.is_restart and not steps.is_open,
        left=event.budget,
    )
    if steps.is_open:
        emit(Proceed(event.key))
    entry = timed(event.key, entry, now, emit, is_open=steps.is_open)
    return _with(steps, event.key, entry)


def _with(steps: EpisodeSteps, key: str, entry: EpisodeEntry) -> EpisodeSteps:
    return attrs.evolve(steps, live=steps.live.put(key, entry))


def _end(steps: EpisodeSteps, key: str, emit: Emit) -> EpisodeSteps:
    entry = steps.live.get(key)
    if entry is None:
        return steps
    if entry.due is not None:
        emit(ArmDeadline(key, None))
    return attrs.evolve(steps, live=steps.live.without(key))


def _switched(steps: EpisodeSteps, now: float, emit: Emit) -> EpisodeSteps:
    entries: dict[str, EpisodeEntry] = {}
    for key in sorted(steps.live):
        before = entry = steps.live[key]
        if steps.is_open and not entry.is_retired:
            entry = opened(key, entry, emit)
        entry = timed(key, entry, now, emit, is_open=steps.is_open)
        if entry is not before:
            entries[key] = entry
    return attrs.evolve(steps, live=steps.live.updated(entries)) if entries else steps
