"""What one event makes of one live episode.

A function here returns the entry after the event and emits what its task is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs

from ipistate.protocol.steps.actions import (
    ArmDeadline,
    Cancel,
    EpisodeAction,
    Expire,
    Proceed,
    Wake,
)
from ipistate.protocol.steps.entries import EpisodeEntry, StepState
from ipistate.protocol.steps.events import (
    BoundaryReached,
    DeadlinePassed,
    EpisodeRetired,
    RestartMarked,
    StepEnded,
    StepMode,
    StepStarted,
    TaskEvent,
    WakeTaken,
)


if TYPE_CHECKING:
    from collections.abc import Callable

    Emit: TypeAlias = Callable[[EpisodeAction], None]

_STATE_OF = {
    StepMode.WAIT: StepState.WAIT_STEP,
    StepMode.REPLAY: StepState.REPLAY_STEP,
}


def opened(key: str, entry: EpisodeEntry, emit: Emit) -> EpisodeEntry:
    """Let an episode go on, or ask, after admission has opened."""
    if entry.state is StepState.PARKED:
        emit(Wake(key))
    elif entry.becomes_restart:
        emit(Proceed(key))
    if not entry.becomes_restart:
        return entry
    return attrs.evolve(entry, is_restart=True, becomes_restart=False)


def changed(
    entry: EpisodeEntry,
    event: TaskEvent | EpisodeRetired | WakeTaken | DeadlinePassed,
    now: float,
    emit: Emit,
    *,
    is_open: bool,
) -> EpisodeEntry:
    """Take an event of an episode that is not retired; its time is left to ``timed``.

    Raises:
        TypeError: The event cannot follow the task's last one.
    """
    match event:
        case EpisodeRetired(key):
            return _retire(key, entry, emit)
        case WakeTaken(key):
            if entry.state is not StepState.PARKED or not is_open:
                return entry
            emit(Proceed(key))
            return attrs.evolve(entry, state=StepState.RUNNING)
        case DeadlinePassed(key):
            return _time_out(key, entry, now, emit)
        case _:
            _check_order(entry, event)
            after, proceeds = _of_task(entry, event, is_open=is_open)
            if proceeds:
                emit(Proceed(event.key))
            return after


def _retire(key: str, entry: EpisodeEntry, emit: Emit) -> EpisodeEntry:
    # A clean-up is awaited, not cancelled: it frees what the episode holds elsewhere.
    if not entry.is_finishing:
        emit(Cancel(key))
    return attrs.evolve(entry, is_retired=True)


def _time_out(key: str, entry: EpisodeEntry, now: float, emit: Emit) -> EpisodeEntry:
    if entry.due is None:
        return entry
    if now < entry.due:  # a timer may be early
        emit(ArmDeadline(key, entry.due))
        return entry
    emit(Expire(key))
    return attrs.evolve(entry, due=None)


_IN_STEP = frozenset({StepState.WAIT_STEP, StepState.REPLAY_STEP})


def _check_order(entry: EpisodeEntry, event: TaskEvent) -> None:
    # A step that began elsewhere than at a boundary could run twice unnoticed.
    if entry.becomes_restart or not _follows(entry, event):
        name = type(event).__name__
        raise TypeError(f"{name} of {event.key} cannot follow {entry.state.value}")


def _follows(entry: EpisodeEntry, event: TaskEvent) -> bool:
    is_running = entry.state is StepState.RUNNING and not entry.is_finishing
    match event:
        case BoundaryReached():
            return is_running or entry.has_step_ended
        case StepEnded():
            return entry.state in _IN_STEP and not entry.has_step_ended
        case RestartMarked():
            return entry.state is not StepState.PARKED
        case _:
            return is_running


def _of_task(
    entry: EpisodeEntry, event: TaskEvent, *, is_open: bool
) -> tuple[EpisodeEntry, bool]:
    # What the task's event makes of the entry, and whether the task goes on at once.
    match event:
        case BoundaryReached(_, boundary):
            goes_on = is_open or entry.is_restart
            state = StepState.RUNNING if goes_on else StepState.PARKED
            return _at(entry, state, boundary), goes_on
        case StepStarted(_, mode):
            return attrs.evolve(entry, state=_STATE_OF[mode]), True
        case StepEnded(_, is_failed):
            return _step_ended(entry, is_failed=is_failed, is_open=is_open)
        case RestartMarked():
            waits = not is_open and entry.is_exported
            marked = attrs.evolve(entry, is_restart=not waits, becomes_restart=waits)
            return marked, not waits
        case _:
            return attrs.evolve(entry, is_finishing=True), True


def _at(entry: EpisodeEntry, state: StepState, boundary: object) -> EpisodeEntry:
    return attrs.evolve(entry, state=state, boundary=boundary, has_step_ended=False)


def _step_ended(
    entry: EpisodeEntry, *, is_failed: bool, is_open: bool
) -> tuple[EpisodeEntry, bool]:
    if is_open or entry.state is StepState.WAIT_STEP:
        return attrs.evolve(entry, state=StepState.RUNNING), True
    if not is_failed:
        return attrs.evolve(entry, has_step_ended=True), True
    if entry.is_restart:
        return _at(entry, StepState.RUNNING, None), True
    return _at(entry, StepState.PARKED, None), False


def timed(
    key: str, entry: EpisodeEntry, now: float, emit: Emit, *, is_open: bool
) -> EpisodeEntry:
    """Let the episode's time run, or stand still, as its state demands."""
    due, left = _time(entry, now, is_open=is_open)
    if (due, left) == (entry.due, entry.left):
        return entry
    if due != entry.due:
        emit(ArmDeadline(key, due))
    return attrs.evolve(entry, due=due, left=left)


def _time(
    entry: EpisodeEntry, now: float, *, is_open: bool
) -> tuple[float | None, float | None]:
    if entry.is_retired or entry.is_finishing:
        return None, None
    # A checkpoint may hold up what a replay step has asked of another server.
    is_held = entry.state is StepState.REPLAY_STEP and not is_open
    if is_held or entry.state is StepState.PARKED:
        return None, entry.left if entry.due is None else max(0.0, entry.due - now)
    return entry.due if entry.left is None else now + entry.left, None
