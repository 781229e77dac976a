"""Random interleavings of episodes, steps, checkpoints, retires and time.

After each event the engine is compared with a naive model of one dict an episode, and
the shell checks that what is counted is what a scan finds (invariant 1).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import attrs

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ipistate.protocol.steps import events as on


if TYPE_CHECKING:
    from tests.protocol.steps.conftest import StepsShell

KEYS = st.sampled_from(["a", "b", "c"])
CHOICES = st.integers(0, 1000)
BUDGETS = st.none() | st.integers(1, 40).map(lambda quarters: quarters / 4)
SECONDS = st.integers(1, 20).map(lambda quarters: quarters / 4)
SELDOM = st.sampled_from([True, False, False, False])


@attrs.define(kw_only=True)
class Task:
    """What the model knows of one episode, and whether its task waits."""

    budget: float | None
    boundary: object
    is_restart: bool
    state: str = "running"
    step: str | None = None
    """The mode of a step in progress."""
    ran: float = 0.0
    waits: bool = False
    is_marking: bool = False
    is_retired: bool = False
    is_finishing: bool = False
    is_expired: bool = False

    @property
    def blocks(self) -> bool:
        """As the table says."""
        return self.is_retired or (
            not self.is_restart and self.state in {"running", "wait_step"}
        )

    @property
    def is_exported(self) -> bool:
        """As the table says."""
        return not self.blocks and not self.is_restart


Said = list[tuple[str, str]]


class Interleavings(RuleBasedStateMachine):
    """The engine in its shell, and the naive model."""

    def __init__(self, shell_class: type[StepsShell]) -> None:
        """Start without episodes."""
        super().__init__()
        self.shell, self.is_open, self.boundaries = shell_class(), True, 0
        self.tasks: dict[str, Task] = {}
        self.cancelled: set[str] = set()
        self.prepared: tuple[Any, Any] | None = None
        self.in_replay: set[str] = set()

    def pick(self, choice: int, wanted: Callable[[Task], bool]) -> str | None:
        """Pick the key of a live task that is free to act."""
        keys = [
            key
            for key, one in sorted(self.tasks.items())
            if not one.waits and not one.is_retired and wanted(one)
        ]
        return keys[choice % len(keys)] if keys else None

    def replied(self, key: str, said: Said, proceeds: bool) -> None:
        """Compare what a task was told: to go on, or nothing yet."""
        assert said == ([("Proceed", key)] if proceeds else [])
        self.tasks[key].waits = not proceeds

    # -- tasks

    @rule(key=KEYS, is_restart=SELDOM, budget=BUDGETS, continues=st.booleans())
    def arrive(
        self, key: str, is_restart: bool, budget: float | None, continues: bool
    ) -> None:
        """An episode begins, or is refused because it lives."""
        boundary = self.next_boundary() if continues else None
        said = self.shell.arrive(key, boundary, budget, is_restart=is_restart)
        if key in self.tasks:
            assert said == [("RefuseEpisode", key)]
            return
        task = Task(budget=budget, boundary=boundary, is_restart=is_restart)
        self.cancelled.discard(key)
        self.tasks[key] = task
        if not self.is_open:
            task.state, task.is_marking, task.is_restart = "parked", is_restart, False
            self.forget_prepared()  # its record was exported until now
        self.replied(key, said, self.is_open)

    def next_boundary(self) -> int:
        """Return a boundary that no other one equals."""
        self.boundaries += 1
        return self.boundaries

    @rule(choice=CHOICES)
    def reach(self, choice: int) -> None:
        """A task reaches a boundary."""
        key = self.pick(choice, lambda one: one.step is None and not one.is_finishing)
        if key is None:
            return
        task, boundary = self.tasks[key], self.next_boundary()
        said = self.shell.reach(boundary, key)
        goes_on = self.is_open or task.is_restart
        task.boundary = boundary
        task.state = "running" if goes_on else "parked"
        self.replied(key, said, goes_on)

    @rule(choice=CHOICES, mode=st.sampled_from(["wait", "replay"]))
    def start(self, choice: int, mode: str) -> None:
        """A task starts a step."""
        key = self.pick(
            choice,
            lambda one: (
                one.step is None and one.state == "running" and not one.is_finishing
            ),
        )
        if key is None:
            return
        task = self.tasks[key]
        said = self.shell.start(mode, key)
        task.step, task.state = mode, f"{mode}_step"
        self.replied(key, said, proceeds=True)

    @rule(choice=CHOICES, is_failed=st.booleans())
    def end_step(self, choice: int, is_failed: bool) -> None:
        """A step ends."""
        key = self.pick(choice, lambda one: one.step is not None)
        if key is None:
            return
        task = self.tasks[key]
        said = self.shell.end_step(key, is_failed=is_failed)
        mode, task.step = task.step, None
        stays = mode == "replay" and not self.is_open
        if not stays or (is_failed and task.is_restart):
            task.state = "running"
        elif is_failed:
            task.state = "parked"
        if stays and is_failed:
            task.boundary = None
        self.replied(key, said, proceeds=task.state != "parked")

    @rule(choice=CHOICES)
    def mark(self, choice: int) -> None:
        """A participant says that it cannot capture the episode."""
        key = self.pick(choice, lambda one: one.state != "parked")
        if key is None:
            return
        task = self.tasks[key]
        said = self.shell.send(on.RestartMarked(key))
        # A blocking episode is in no prepared checkpoint, so it need not wait.
        task.is_marking = not self.is_open and task.is_exported
        task.is_restart = not task.is_marking
        self.replied(key, said, task.is_restart)

    @rule(choice=CHOICES)
    def finish(self, choice: int) -> None:
        """The protocol is over."""
        key = self.pick(
            choice, lambda one: one.state == "running" and not one.is_finishing
        )
        if key is not None:
            self.tasks[key].is_finishing = True
            self.replied(key, self.shell.send(on.FinishStarted(key)), proceeds=True)

    @precondition(lambda self: self.tasks)
    @rule(choice=CHOICES)
    def end(self, choice: int) -> None:
        """A task ends: it is done, was cancelled, or its caller went away."""
        keys = sorted(self.tasks)
        key = keys[choice % len(keys)]
        if self.tasks[key].is_exported or self.tasks[key].is_restart:
            self.forget_prepared()
        del self.tasks[key]
        assert self.shell.send(on.EpisodeEnded(key)) == []

    @precondition(lambda self: self.tasks)
    @rule(choice=CHOICES)
    def wake(self, choice: int) -> None:
        """A parked task asks whether it may go on; a late wake changes nothing."""
        keys = sorted(self.tasks)
        key = keys[choice % len(keys)]
        task = self.tasks[key]
        said = self.shell.send(on.WakeTaken(key))
        proceeds = task.state == "parked" and self.is_open and not task.is_retired
        assert said == ([("Proceed", key)] if proceeds else [])
        if proceeds:
            task.state, task.waits = "running", False

    # -- the control plane

    @precondition(lambda self: self.is_open)
    @rule()
    def close(self) -> None:
        """A checkpoint closes admission."""
        self.is_open = False
        assert self.shell.close() == []

    @precondition(lambda self: not self.is_open)
    @rule()
    def open(self) -> None:
        """It opens again: what is parked is woken, what was marked is a restart."""
        self.is_open, expected = True, []
        self.forget_prepared()
        for key, task in sorted(self.tasks.items()):
            if task.is_retired:
                continue
            if task.state == "parked":
                expected.append(("Wake", key))
            elif task.is_marking:
                expected.append(("Proceed", key))
                task.waits = False
            task.is_restart = task.is_restart or task.is_marking
            task.is_marking = False
        assert self.shell.open() == expected

    @precondition(lambda self: self.tasks and self.is_open)
    @rule(choice=CHOICES)
    def retire(self, choice: int) -> None:
        """An episode is retired: cancelled once in its life, unless it is finishing."""
        keys = sorted(self.tasks)
        key = keys[choice % len(keys)]
        task = self.tasks[key]
        cancels = not task.is_retired and not task.is_finishing
        said = self.shell.send(on.EpisodeRetired(key))
        assert said == ([("Cancel", key)] if cancels else [])
        assert not cancels or key not in self.cancelled
        self.cancelled |= {key} if cancels else set()
        task.is_retired = True

    @rule(seconds=SECONDS)
    def pass_time(self, seconds: float) -> None:
        """Time passes; it counts only for what is not parked or held (invariant 4)."""
        expected: Said = []
        for key, task in sorted(self.tasks.items()):
            is_held = task.state == "replay_step" and not self.is_open
            if is_held or task.state == "parked":
                continue
            if task.is_retired or task.is_finishing:
                continue
            task.ran += seconds
            if task.budget is None or task.is_expired or task.ran < task.budget:
                continue
            task.is_expired = True
            expected.append(("Expire", key))
        assert sorted(self.shell.pass_time(seconds)) == expected

    # -- what always holds

    def forget_prepared(self) -> None:
        """Start to compare anew."""
        self.prepared = None

    @invariant()
    def model_and_engine_agree(self) -> None:
        """The four sets, the boundaries and the readiness, recomputed by scanning."""
        steps, tasks = self.shell.steps, sorted(self.tasks.items())
        exported = {key: one.boundary for key, one in tasks if one.is_exported}
        assert steps.exported() == exported
        assert [*steps.exported()] == [*exported]
        assert [*steps.blockers()] == [key for key, one in tasks if one.blocks]
        assert [*steps.restarts()] == [
            key for key, one in tasks if one.is_restart and not one.is_retired
        ]
        assert steps.is_ready == (not any(one.blocks for _, one in tasks))

    @invariant()
    def nothing_changes_while_prepared(self) -> None:
        """From readiness to the opening the sets stay (invariant 2).

        A value may advance where a replay step was in progress; all others stay.
        """
        steps = self.shell.steps
        if self.is_open or not steps.is_ready:
            return
        found = steps.exported(), steps.restarts()
        if self.prepared is not None:
            exported, restarts = self.prepared
            assert ([*exported], restarts) == ([*found[0]], found[1])
            changed = {k for k, value in exported.items() if value != found[0][k]}
            assert changed <= self.in_replay
        else:
            self.in_replay = {
                key for key, one in self.tasks.items() if one.state == "replay_step"
            }
        self.prepared = found


def test_the_engine_is_the_naive_model(shell_class: type[StepsShell]) -> None:
    """Every interleaving of events has the outcome that the table gives it."""
    run_state_machine_as_test(
        partial(Interleavings, shell_class),  # type: ignore[arg-type]
        settings=settings(stateful_step_count=50),
    )


def arrive(machine: Interleavings, random: Random) -> None:
    """Let an episode arrive, seldom as a restart."""
    budget = random.choice([None, random.randrange(1, 60) / 4])
    is_restart, continues = random.random() < 0.1, random.random() < 0.5
    machine.arrive(random.choice(["a", "b", "c"]), is_restart, budget, continues)


def start(machine: Interleavings, random: Random) -> None:
    """Start a step."""
    machine.start(random.randrange(1000), random.choice(["wait", "replay"]))


def end_step(machine: Interleavings, random: Random) -> None:
    """End a step, seldom badly."""
    machine.end_step(random.randrange(1000), random.random() < 0.3)


def switch(machine: Interleavings, _: Random) -> None:
    """Close admission, or open it."""
    (machine.close if machine.is_open else machine.open)()


def on_any(name: str) -> Callable[[Interleavings, Random], None]:
    """Return a move that one of the tasks makes."""

    def move(machine: Interleavings, random: Random) -> None:
        if machine.tasks and (machine.is_open or name != "retire"):
            getattr(machine, name)(random.randrange(1000))

    return move


def wait(machine: Interleavings, random: Random) -> None:
    """Let time pass."""
    machine.pass_time(random.randrange(1, 20) / 4)


MOVES = {
    arrive: 8,
    on_any("reach"): 8,
    start: 10,
    end_step: 8,
    switch: 4,
    wait: 6,
    on_any("wake"): 4,
    on_any("mark"): 2,
    on_any("end"): 2,
    on_any("finish"): 1,
    on_any("retire"): 1,
}
"""What happens in a walk, mostly what brings an episode on."""


@given(seed=st.integers(0, 2**32))
def test_long_walks_keep_every_rule(seed: int, shell_class: type[StepsShell]) -> None:
    """The same machine over hundreds of events, which a search for rules seldom makes."""
    machine, random = Interleavings(shell_class), Random(seed)
    for _ in range(400):
        random.choices([*MOVES], [*MOVES.values()])[0](machine, random)
        machine.model_and_engine_agree()
        machine.nothing_changes_while_prepared()
