"""What the shell tells the steps engine about live episodes.

An episode's task sends its own events in order and goes on only after ``Proceed``. Its
last event is ``EpisodeEnded``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import attrs


class StepMode(StrEnum):
    """What a checkpoint does about a step that runs."""

    WAIT = "wait"
    """It waits for the step, which must not run twice."""
    REPLAY = "replay"
    """It does not wait; after a crash the step runs again."""


@attrs.frozen(kw_only=True)
class EpisodeArrived:
    """An episode that was admitted is about to start; answered by ``Proceed``.

    ``boundary`` is the restored one that it continues from. ``budget`` is its time in
    seconds, None for no limit. A restart records no boundaries.
    """

    key: str
    boundary: object = None
    is_restart: bool = False
    budget: float | None = None


@attrs.frozen
class BoundaryReached:
    """The episode can be continued from this immutable value later."""

    key: str
    boundary: object


@attrs.frozen
class StepStarted:
    """A step of the protocol is about to run. The event before it is a boundary."""

    key: str
    mode: StepMode


@attrs.frozen
class StepEnded:
    """The step is over, well or not."""

    key: str
    is_failed: bool = False


@attrs.frozen
class RestartMarked:
    """A participant cannot capture this episode: it starts over after a crash."""

    key: str


@attrs.frozen
class FinishStarted:
    """The protocol is over; what remains is the clean-up, which nothing cancels."""

    key: str


@attrs.frozen
class EpisodeEnded:
    """The episode's task has ended, for whatever reason."""

    key: str


@attrs.frozen
class EpisodeRetired:
    """The episode is to stop. It is gone when its task has ended."""

    key: str


@attrs.frozen
class WakeTaken:
    """A parked task has been woken, and asks whether it may go on."""

    key: str


@attrs.frozen
class DeadlinePassed:
    """The time asked for with ``ArmDeadline`` has come."""

    key: str


@attrs.frozen
class StepsClosed:
    """A checkpoint or a restore has closed admission."""


@attrs.frozen
class StepsOpened:
    """Admission is open again."""


TaskEvent: TypeAlias = (
    BoundaryReached | StepStarted | StepEnded | RestartMarked | FinishStarted
)
"""What only a running task can send."""

EpisodeEvent: TypeAlias = (
    TaskEvent
    | EpisodeArrived
    | EpisodeEnded
    | EpisodeRetired
    | WakeTaken
    | DeadlinePassed
    | StepsClosed
    | StepsOpened
)
