"""A shell for the steps engine that keeps its timers and notes what it is told."""

from __future__ import annotations

import pytest

from ipistate.protocol.steps import actions as do
from ipistate.protocol.steps import events as on
from ipistate.protocol.steps.engine import EpisodeSteps, handle


class StepsShell:
    """Sends events; after each of them the counted is compared with the scanned."""

    def __init__(self) -> None:
        """Start without episodes, open."""
        self.steps = EpisodeSteps()
        self.now = 1000.0
        self.timers: dict[str, float] = {}

    def send(self, event: on.EpisodeEvent) -> list[tuple[str, str]]:
        """Hand over an event and return what it caused: the action's name and key."""
        before, frozen = self.steps, repr(self.steps)
        self.steps, actions = handle(before, event, self.now)
        assert frozen == repr(before)
        for action in actions:
            if isinstance(action, do.ArmDeadline):
                self._arm(action)
        self.check()
        return [(type(one).__name__, one.key) for one in actions if _is_said(one)]

    def _arm(self, action: do.ArmDeadline) -> None:
        if action.at is None:
            del self.timers[action.key]
        else:
            self.timers[action.key] = action.at

    def check(self) -> None:
        """Every live episode is in one of four sets, and what is counted is true."""
        steps = self.steps
        blockers, restarts = {*steps.blockers()}, {*steps.restarts()}
        retired = {key for key, one in steps.live.items() if one.is_retired}
        exported = {*steps.exported()}
        parts = [exported, restarts, blockers - restarts - retired, retired]
        assert {*steps.live} == set().union(*parts)
        assert len(steps.live) == sum(map(len, parts))
        assert retired <= blockers
        assert (len(blockers), not blockers) == (steps.live.blocking, steps.is_ready)
        armed = {key: one.due for key, one in steps.live.items() if one.due is not None}
        assert self.timers == armed

    def arrive(
        self,
        key: str = "a",
        boundary: object = None,
        budget: float | None = None,
        **options: bool,
    ) -> list[tuple[str, str]]:
        """Let an episode begin."""
        return self.send(
            on.EpisodeArrived(key=key, boundary=boundary, budget=budget, **options)
        )

    def reach(self, boundary: object, key: str = "a") -> list[tuple[str, str]]:
        """Let an episode reach a boundary."""
        return self.send(on.BoundaryReached(key, boundary))

    def start(self, mode: str, key: str = "a") -> list[tuple[str, str]]:
        """Let a step start."""
        return self.send(on.StepStarted(key, on.StepMode(mode)))

    def end_step(self, key: str = "a", **options: bool) -> list[tuple[str, str]]:
        """Let a step end."""
        return self.send(on.StepEnded(key, **options))

    def close(self) -> list[tuple[str, str]]:
        """Close admission."""
        return self.send(on.StepsClosed())

    def open(self) -> list[tuple[str, str]]:
        """Open admission."""
        return self.send(on.StepsOpened())

    def pass_time(self, seconds: float) -> list[tuple[str, str]]:
        """Let time pass, and the timers that are due fire."""
        self.now += seconds
        late = sorted(key for key, at in self.timers.items() if at <= self.now)
        for key in late:
            del self.timers[key]
        return [one for key in late for one in self._fire(key)]

    def _fire(self, key: str) -> list[tuple[str, str]]:
        self.steps, actions = handle(self.steps, on.DeadlinePassed(key), self.now)
        return [(type(action).__name__, action.key) for action in actions]

    def state(self, key: str = "a") -> str:
        """Name the state of an episode."""
        return self.steps.live[key].state.value

    def boundary(self, key: str = "a") -> object:
        """Return the recorded boundary of an episode."""
        return self.steps.live[key].boundary


def _is_said(action: do.EpisodeAction) -> bool:
    return not isinstance(action, do.ArmDeadline)


@pytest.fixture
def shell() -> StepsShell:
    """Return a shell without episodes."""
    return StepsShell()


@pytest.fixture(scope="session")
def shell_class() -> type[StepsShell]:
    """Return the class, for machines that start anew."""
    return StepsShell
