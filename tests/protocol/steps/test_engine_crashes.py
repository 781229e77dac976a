"""Crashes at any moment: in one life no step that is waited for runs twice (invariant 3).

Episodes follow a script of steps. A world, saved and restored with the engine's
boundaries, notes the wait steps that have begun in it. Whatever starts over begins a new
life with an empty world.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import attrs

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ipistate.protocol.steps import events as on


if TYPE_CHECKING:
    from tests.protocol.steps.conftest import StepsShell

ROLLOUTS = ("a", "b", "c")
ANY = st.sampled_from(ROLLOUTS)
SCRIPTS = st.lists(st.sampled_from(["wait", "replay"]), min_size=1, max_size=4)
SELDOM = st.sampled_from([True, False, False, False])


@attrs.define
class Life:
    """Where a task stands in the script, and whether it was told to go on."""

    position: int
    phase: str = "arrived"
    may_go_on: bool = True


@attrs.frozen(kw_only=True)
class Saved:
    """What a commit wrote: boundaries by rollout, worlds, and who was done."""

    boundaries: Mapping[str, int | None] = attrs.field(factory=dict)
    worlds: Mapping[str, tuple[int, ...]] = attrs.field(factory=dict)
    done: frozenset[str] = frozenset()


class Crashing(RuleBasedStateMachine):
    """A process that dies, and what was saved of it."""

    def __init__(self, shell_class: type[StepsShell]) -> None:
        """Start before the first process."""
        super().__init__()
        self.shell_class, self.saved = shell_class, Saved()
        self.script: list[str] = []

    @initialize(script=SCRIPTS)
    def boot(self, script: list[str]) -> None:
        """All episodes follow one script."""
        self.script = script
        self.start_process()

    def start_process(self) -> None:
        """Restore what was saved; a record without a boundary starts over."""
        saved = self.saved
        self.shell, self.lives = self.shell_class(), dict[str, Life]()
        self.pending = dict(saved.boundaries)
        self.done, self.is_open = set(saved.done), True
        self.worlds = {
            name: world
            for name, world in saved.worlds.items()
            if saved.boundaries.get(name) is not None
        }

    def heard(self, name: str, said: list[tuple[str, str]]) -> None:
        """Let the task go on if it was told to."""
        self.lives[name].may_go_on = ("Proceed", name) in said

    @rule(name=ANY, is_failed=SELDOM, is_restart=SELDOM)
    def advance(self, name: str, is_failed: bool, is_restart: bool) -> None:
        """An episode arrives, asks after a wake, or does what comes next."""
        life = self.lives.get(name)
        if life is None:
            self.arrive(name)
        elif life.may_go_on:
            self.go_on(name, life, is_failed=is_failed, is_restart=is_restart)
        elif life.phase != "marking":
            self.heard(name, self.shell.send(on.WakeTaken(name)))

    def arrive(self, name: str) -> None:
        """A new episode is refused while closed, a restored one is not."""
        if name in self.done or not (self.is_open or name in self.pending):
            return
        boundary = self.pending.pop(name, None)
        if boundary is None:
            self.worlds[name] = ()
        self.lives[name] = Life(boundary or 0)
        self.heard(name, self.shell.arrive(name, boundary))

    def go_on(
        self, name: str, life: Life, *, is_failed: bool, is_restart: bool
    ) -> None:
        """Do what comes next in the script."""
        if life.phase == "arrived":
            self.reach(name, life)
        elif life.phase == "marking":
            life.phase = "in step"
        elif life.phase == "failed" or life.position == len(self.script):
            self.leave(name)
        elif life.phase == "at boundary":
            self.start(name, life)
        else:
            self.end_step(name, life, is_failed=is_failed, is_restart=is_restart)

    def reach(self, name: str, life: Life) -> None:
        """Report a boundary: the position in the script."""
        life.phase = "at boundary"
        self.heard(name, self.shell.reach(life.position, name))

    def start(self, name: str, life: Life) -> None:
        """Start a step. This is the invariant."""
        mode = self.script[life.position]
        if mode == "wait":
            assert life.position not in self.worlds[name]
            self.worlds[name] = (*self.worlds[name], life.position)
        life.phase = "in step"
        self.heard(name, self.shell.start(mode, name))

    def end_step(
        self, name: str, life: Life, *, is_failed: bool, is_restart: bool
    ) -> None:
        """End a step, or say in it that the episode is a restart."""
        if is_restart:
            said = self.shell.send(on.RestartMarked(name))
            life.phase = "in step" if ("Proceed", name) in said else "marking"
            self.heard(name, said)
            return
        life.position += not is_failed
        life.phase = "failed" if is_failed else "arrived"
        self.heard(name, self.shell.end_step(name, is_failed=is_failed))

    def leave(self, name: str) -> None:
        """Answer and end."""
        self.heard(name, self.shell.send(on.FinishStarted(name)))
        self.shell.send(on.EpisodeEnded(name))
        del self.lives[name]
        self.done.add(name)

    @precondition(lambda self: self.is_open)
    @rule()
    def close(self) -> None:
        """A checkpoint begins."""
        self.is_open = False
        self.shell.close()

    @precondition(lambda self: not self.is_open)
    @rule()
    def open(self) -> None:
        """A checkpoint is resumed, after its commit or without one."""
        self.is_open = True
        for _, name in (one for one in self.shell.open() if one[0] == "Proceed"):
            self.lives[name].may_go_on = True

    @precondition(lambda self: not self.is_open and self.shell.steps.is_ready)
    @rule()
    def commit(self) -> None:
        """Write what is exported, and what was restored and nothing has used."""
        boundaries = {**self.pending, **self.shell.steps.exported()}
        self.saved = Saved(
            boundaries=boundaries,  # type: ignore[arg-type]
            worlds={name: self.worlds.get(name, ()) for name in boundaries},
            done=frozenset(self.done),
        )

    @rule()
    def crash(self) -> None:
        """The process dies and a fresh one restores the last checkpoint."""
        self.start_process()


def test_no_wait_step_runs_twice_in_a_life(shell_class: type[StepsShell]) -> None:
    """Over any number of crashes, at any moment, with any checkpoint before them."""
    run_state_machine_as_test(
        partial(Crashing, shell_class),  # type: ignore[arg-type]
        settings=settings(stateful_step_count=50),
    )


def step(machine: Crashing, random: Random) -> None:
    """Do one thing, mostly what brings an episode on."""
    match random.choices(range(4), weights=[60, 8, 6, 1])[0]:
        case 0:
            is_failed, is_restart = random.random() < 0.1, random.random() < 0.05
            machine.advance(random.choice(ROLLOUTS), is_failed, is_restart)
        case 1:
            (machine.close if machine.is_open else machine.open)()
        case 2 if not machine.is_open and machine.shell.steps.is_ready:
            machine.commit()
        case 3:
            machine.crash()
        case _:
            pass


@given(seed=st.integers(0, 2**32), script=SCRIPTS)
def test_long_walks_over_many_crashes(
    seed: int, script: list[str], shell_class: type[StepsShell]
) -> None:
    """The same, with enough events between the crashes for whole episodes."""
    machine, random = Crashing(shell_class), Random(seed)
    machine.boot(script)
    for _ in range(400):
        step(machine, random)
