"""Short scripts: Hypothesis looks for the shortest one that breaks a rule."""

from __future__ import annotations

import re

from collections.abc import Callable
from typing import Any

import pytest

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from simulator.faults import FAULTS
from simulator.ledger import Violation
from simulator.process import Kind
from simulator.stage import Stage

from ipistate.protocol.operations import (
    CommitBody,
    ForgetBody,
    PrepareBody,
    RenewBody,
    RestoreBody,
    ResumeBody,
    RetireBody,
)


SESSIONS = st.sampled_from(["s0", "s1", "s2"])
ROLLOUTS = st.sampled_from(["r0", "r1"])
EPISODES = st.sampled_from(["r0", "r1", "r0-a1", "r1-a1", "r0-a2"])
NAMES = st.sampled_from(["c0", "c1", "c2"])
DIRECTORIES = st.sampled_from(["d0", "d1"])
SCOPES = st.none() | st.lists(EPISODES, unique=True)
DEADLINES = st.sampled_from([30.0, 30.0, 5.0, 0.0])
PLACES = st.integers(0, 20)


def some(name: str) -> Callable[..., Any]:
    """Allow a rule while the process has some of these."""
    return precondition(lambda self: getattr(self.stage.process, name))


class Scripts(RuleBasedStateMachine):
    """Everything that can happen, one thing at a time."""

    def __init__(self) -> None:
        """Start with a fresh process and an empty disk."""
        super().__init__()
        self.stage = Stage()

    @initialize()
    def begin(self) -> None:
        """Two sessions live, each with an effect."""
        for session, episode in [("s0", "r0"), ("s1", "r1")]:
            self.seed(session, episode)
            self.stage.finish()
            self.ask(Kind.TOOL, session, None, 200)
            self.stage.finish()

    # -- data

    @rule(session=SESSIONS, episode=st.none() | EPISODES)
    def seed(self, session: str, episode: str | None) -> None:
        """A seed arrives."""
        self.stage.request(Kind.SEED, session, episode)

    @rule(
        kind=st.sampled_from(Kind),
        session=SESSIONS,
        episode=st.none() | EPISODES,
        outcome=st.sampled_from([200, 200, 422, 500, None]),
    )
    def ask(
        self, kind: Kind, session: str, episode: str | None, outcome: int | None
    ) -> None:
        """A request arrives."""
        self.stage.request(kind, session, episode, outcome)

    @some("waiting")
    @rule(place=PLACES)
    def leave(self, place: int) -> None:
        """The client of a waiting request goes away."""
        waiting = sorted(self.stage.process.waiting)
        self.stage.leave(waiting[place % len(waiting)])

    @some("running")
    @rule(place=PLACES)
    def break_off(self, place: int) -> None:
        """The client of a running request goes away."""
        running = sorted(self.stage.process.running)
        self.stage.leave(running[place % len(running)])

    # -- control

    @rule(name=NAMES, deadline=DEADLINES)
    def prepare(self, name: str, deadline: float) -> None:
        """A prepare arrives."""
        self.stage.call(PrepareBody, name, deadline)

    @rule(name=NAMES, deadline=DEADLINES)
    def renew(self, name: str, deadline: float) -> None:
        """A renew arrives."""
        self.stage.call(RenewBody, name, deadline)

    @rule(name=NAMES, directory=DIRECTORIES, scope=SCOPES, deadline=DEADLINES)
    def commit(
        self, name: str, directory: str, scope: list[str] | None, deadline: float
    ) -> None:
        """A commit arrives."""
        members = {"checkpoint_dir": directory, "episode_ids": scope}
        self.stage.call(CommitBody, name, deadline, **members)

    @rule(name=NAMES, directory=DIRECTORIES, scope=SCOPES, deadline=DEADLINES)
    def restore(
        self, name: str, directory: str, scope: list[str] | None, deadline: float
    ) -> None:
        """A restore arrives."""
        members = {"checkpoint_dir": directory, "episode_ids": scope or []}
        self.stage.call(RestoreBody, name, deadline, **members)

    @rule(name=NAMES, deadline=DEADLINES)
    def resume(self, name: str, deadline: float) -> None:
        """A resume arrives."""
        self.stage.call(ResumeBody, name, deadline)

    @rule(name=NAMES, episodes=st.lists(EPISODES, min_size=1), deadline=DEADLINES)
    def retire(self, name: str, episodes: list[str], deadline: float) -> None:
        """A retire arrives."""
        self.stage.call(RetireBody, name, deadline, episode_ids=episodes)

    @rule(name=NAMES, rollout=ROLLOUTS, deadline=DEADLINES)
    def forget(self, name: str, rollout: str, deadline: float) -> None:
        """A forget arrives."""
        self.stage.call(ForgetBody, name, deadline, rollout_ids=(rollout,))

    @some("calls")
    @rule(place=PLACES)
    def drop(self, place: int) -> None:
        """The caller of a control call goes away."""
        calls = sorted(self.stage.process.calls)
        self.stage.drop(calls[place % len(calls)])

    @rule(name=NAMES, directory=DIRECTORIES, scope=SCOPES)
    def checkpoint(self, name: str, directory: str, scope: list[str] | None) -> None:
        """A controller takes a checkpoint, if nothing is in its way."""
        self.stage.finish()
        self.prepare(name, 30.0)
        self.commit(name, directory, scope, 30.0)

    @precondition(lambda self: self.stage.disk.directories)
    @rule(name=NAMES, place=PLACES, resumes=st.booleans())
    def start_over(self, name: str, place: int, resumes: bool) -> None:
        """A fresh process restores all that it finds."""
        self.crash(is_lost=False)
        directories = sorted(self.stage.disk.directories)
        directory = directories[place % len(directories)]
        found = self.stage.ledger.contents.get(directory, {}).values()
        keys = sorted({episode.capture_key for episode, _ in found})
        self.restore(name, directory, keys, 30.0)
        self.stage.finish()
        if resumes:
            self.resume(name, 30.0)

    # -- what is under way, time, faults, crashes

    @precondition(lambda self: self.stage.pending)
    @rule(place=PLACES)
    def happen(self, place: int) -> None:
        """Something that is under way goes on by a step."""
        self.stage.happen(place)

    @rule()
    def finish(self) -> None:
        """Everything under way comes to its end."""
        self.stage.finish()

    @rule(seconds=st.sampled_from([1.0, 5.0, 60.0]), is_late=st.booleans())
    def pass_time(self, seconds: float, is_late: bool) -> None:
        """Time passes; the timer may be late."""
        self.stage.pass_time(seconds, is_late)

    @precondition(lambda self: self.stage.timer is not None)
    @rule()
    def tick(self) -> None:
        """The timer fires, perhaps too early."""
        self.stage.tick()

    @rule()
    def fail(self) -> None:
        """The next step on the disk fails."""
        self.stage.is_failing = True

    @rule(is_quick=st.booleans())
    def hesitate(self, is_quick: bool) -> None:
        """Worlds are dropped at once, or slowly."""
        self.stage.is_quick = is_quick

    @rule(is_lost=st.booleans())
    def crash(self, is_lost: bool) -> None:
        """The process dies, and what was not synced may be lost."""
        self.stage.crash(is_lost)

    @rule(actions=st.integers(0, 4))
    def light(self, actions: int) -> None:
        """The process will die between two actions."""
        self.stage.fuse = actions

    def teardown(self) -> None:
        """Nobody is left waiting, whatever happened before."""
        self.stage.rest()


def test_scripts_keep_every_invariant() -> None:
    """No short script breaks a rule."""
    run_state_machine_as_test(Scripts, settings=settings(stateful_step_count=60))


# -- scripts that once broke a rule


def test_who_leaves_after_an_overdue_lease_is_gone() -> None:
    """A waiting client that leaves is not let in by the lease that runs out with it."""
    stage = Stage()
    stage.call(PrepareBody, "c0")
    waiting = stage.request(Kind.TOOL)
    stage.pass_time(100.0, is_late=True)

    stage.leave(waiting)

    assert {} == stage.process.running
    assert "idle" == stage.process.phase


def test_a_caller_that_leaves_late_gets_no_reply() -> None:
    """A waiting prepare whose caller leaves is not answered by its deadline."""
    stage = Stage()
    stage.request(Kind.TOOL)
    call = stage.call(PrepareBody, "c0", 5.0)
    stage.pass_time(6.0, is_late=True)

    stage.drop(call)

    assert {} == stage.replies
    assert "idle" == stage.process.phase


def test_a_session_that_is_being_freed_keeps_its_name() -> None:
    """A close does not end the wait: a restored session would be freed instead."""
    stage = Stage()
    stage.request(Kind.SEED, "s", "r0")
    stage.finish()
    stage.is_quick = False
    retire = stage.call(RetireBody, "c0", episode_ids=["r0"])
    stage.request(Kind.CLOSE, "s")
    stage.happen(1)

    assert {} == stage.replies
    assert not stage.process.participant.part.is_fresh
    stage.finish()
    assert 200 == stage.replies[retire].status


# -- faults


@pytest.mark.parametrize(
    "name",
    [
        "prepare leaves the gate open",
        "the fence is forgotten",
        "who left while waiting is still let in",
        "a mark does not refuse its own attempt",
        "ready while requests run",
    ],
)
def test_a_fault_is_shown_by_a_short_script(name: str) -> None:
    """Hypothesis boils a failure down to a handful of steps."""
    hunt = settings(
        max_examples=2_000,
        stateful_step_count=60,
        derandomize=True,
        database=None,
        report_multiple_bugs=False,
        phases=[Phase.generate, Phase.shrink],
    )

    with FAULTS[name].injected(), pytest.raises(Violation) as failure:
        run_state_machine_as_test(Scripts, settings=hunt)
    steps = re.findall(
        r"^state\.\w+\(", "\n".join(failure.value.__notes__), re.MULTILINE
    )

    assert len(steps) <= 10, failure.value.__notes__
