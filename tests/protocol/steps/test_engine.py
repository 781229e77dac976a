"""The steps engine by example: each row of its table, while open and while closed."""

from __future__ import annotations

import pickle
import sys

from collections import Counter
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest

from ipistate.protocol.steps import actions as do
from ipistate.protocol.steps import events as on
from ipistate.protocol.steps.engine import EpisodeSteps, handle
from ipistate.protocol.steps.entries import EpisodeEntry, LiveEpisodes


if TYPE_CHECKING:
    from tests.protocol.steps.conftest import StepsShell

GOES_ON = [("Proceed", "a")]


# -- begin


def test_an_episode_begins_running(shell: StepsShell) -> None:
    """A fresh one has no boundary, blocks, and goes on at once."""
    assert shell.arrive() == GOES_ON
    assert (shell.state(), shell.boundary()) == ("running", None)
    assert shell.steps.blockers() == ("a",)


def test_a_continued_episode_begins_at_its_boundary(shell: StepsShell) -> None:
    """Until it reaches another one, that is what is recorded of it."""
    shell.arrive(boundary="verify")

    assert shell.boundary() == "verify"


def test_a_live_key_is_refused(shell: StepsShell) -> None:
    """The one that runs already stays as it is."""
    shell.arrive(boundary="first")
    before = shell.steps
    event = on.EpisodeArrived(key="a", boundary="second")
    after, actions = handle(before, event, shell.now)

    refused = do.RefuseEpisode("a", 409, "checkpoint_error", "a is running already")
    assert (before, (refused,)) == (after, actions)


def test_the_same_key_may_come_again_after_its_end(shell: StepsShell) -> None:
    """An attempt that failed can be made again."""
    shell.arrive(boundary="first")
    shell.send(on.EpisodeEnded("a"))

    assert shell.arrive() == GOES_ON
    assert shell.boundary() is None


def test_an_episode_that_begins_while_closed_is_parked(shell: StepsShell) -> None:
    """A continued one was exported as a record, and is exported as an episode now."""
    shell.close()

    assert shell.arrive(boundary="loop") == []
    assert shell.steps.exported() == {"a": "loop"}
    assert shell.steps.is_ready
    assert shell.open() == [("Wake", "a")]
    assert shell.send(on.WakeTaken("a")) == GOES_ON


def test_a_restart_that_begins_while_closed_waits_to_be_one(shell: StepsShell) -> None:
    """The restarts of a checkpoint do not change while it is open."""
    shell.close()
    shell.arrive(is_restart=True)
    assert shell.steps.restarts() == ()

    assert shell.open() == [("Wake", "a")]
    assert shell.steps.restarts() == ("a",)


# -- boundaries


def test_a_boundary_is_recorded_while_open(shell: StepsShell) -> None:
    """The episode goes on and still blocks."""
    shell.arrive()

    assert shell.reach("seed") == GOES_ON
    assert (shell.state(), shell.boundary()) == ("running", "seed")


def test_an_episode_parks_at_a_boundary_while_closed(shell: StepsShell) -> None:
    """It is recorded with the new boundary, and goes on when it is woken."""
    shell.arrive()
    shell.close()
    assert not shell.steps.is_ready

    assert shell.reach("seed") == []
    assert (shell.state(), shell.steps.exported()) == ("parked", {"a": "seed"})
    assert shell.open() == [("Wake", "a")]
    assert shell.send(on.WakeTaken("a")) == GOES_ON
    assert shell.state() == "running"


def test_closed_again_meanwhile_it_stays_parked(shell: StepsShell) -> None:
    """What was woken finds another checkpoint open, and does not block it."""
    shell.arrive()
    shell.close()
    shell.reach("seed")
    shell.open()
    shell.close()

    assert shell.send(on.WakeTaken("a")) == []
    assert (shell.state(), shell.steps.is_ready) == ("parked", True)
    assert shell.open() == [("Wake", "a")]
    assert shell.send(on.WakeTaken("a")) == GOES_ON


def test_a_second_wake_changes_nothing(shell: StepsShell) -> None:
    """Two checkpoints can have woken a task once."""
    shell.arrive()
    shell.close()
    shell.reach("seed")
    for _ in range(2):
        shell.open()
        shell.close()
    shell.open()

    assert shell.send(on.WakeTaken("a")) == GOES_ON
    assert shell.send(on.WakeTaken("a")) == []


def test_retired_while_parked_it_is_cancelled(shell: StepsShell) -> None:
    """Waking up later does not let it go on."""
    shell.arrive()
    shell.close()
    shell.reach("seed")
    shell.open()

    assert shell.send(on.EpisodeRetired("a")) == [("Cancel", "a")]
    assert shell.send(on.WakeTaken("a")) == []
    assert shell.steps.blockers() == ("a",)


def test_a_restart_never_parks(shell: StepsShell) -> None:
    """Its boundary is recorded, nothing waits for it, and nothing exports it."""
    shell.arrive(is_restart=True)
    shell.close()

    assert shell.reach("seed") == GOES_ON
    assert shell.start("wait") == GOES_ON
    assert (shell.steps.is_ready, shell.steps.exported()) == (True, {})
    assert shell.steps.restarts() == ("a",)


# -- steps


def test_a_wait_step_blocks_until_the_boundary_after_it(shell: StepsShell) -> None:
    """The boundary carries the step's result."""
    shell.arrive()
    shell.reach("close")
    assert shell.start("wait") == GOES_ON
    shell.close()
    assert (shell.state(), shell.steps.blockers()) == ("wait_step", ("a",))

    assert shell.end_step() == GOES_ON
    assert (shell.state(), shell.steps.blockers()) == ("running", ("a",))
    shell.reach("verify")
    assert shell.steps.exported() == {"a": "verify"}


@pytest.mark.parametrize("is_failed", [False, True])
@pytest.mark.parametrize("mode", ["wait", "replay"])
def test_a_step_ends_while_open(shell: StepsShell, mode: str, is_failed: bool) -> None:
    """Well or not, the episode runs and keeps its boundary."""
    shell.arrive()
    shell.reach("seed")
    shell.start(mode)

    assert shell.end_step(is_failed=is_failed) == GOES_ON
    assert (shell.state(), shell.boundary()) == ("running", "seed")


def test_a_failed_wait_step_blocks_until_the_episode_ends(shell: StepsShell) -> None:
    """It cannot be run again, so there is nothing to record."""
    shell.arrive()
    shell.reach("close")
    shell.start("wait")
    shell.close()
    assert shell.end_step(is_failed=True) == GOES_ON
    assert not shell.steps.is_ready

    assert shell.send(on.FinishStarted("a")) == GOES_ON
    assert not shell.steps.is_ready
    shell.send(on.EpisodeEnded("a"))
    assert shell.steps.is_ready


def test_a_replay_step_does_not_block(shell: StepsShell) -> None:
    """The episode counts as being at the boundary before the step."""
    shell.arrive()
    shell.reach("seed")
    shell.start("replay")
    shell.close()

    assert shell.steps.is_ready
    assert shell.steps.exported() == {"a": "seed"}


def test_a_replay_step_that_ends_while_closed(shell: StepsShell) -> None:
    """It still does not block, and the next boundary parks the episode."""
    shell.arrive()
    shell.reach("seed")
    shell.start("replay")
    shell.close()

    assert shell.end_step() == GOES_ON
    assert (shell.state(), shell.steps.exported()) == ("replay_step", {"a": "seed"})
    assert shell.reach("loop") == []
    assert (shell.state(), shell.steps.exported()) == ("parked", {"a": "loop"})


def test_a_replay_step_that_ended_while_closed_does_not_block_the_next(
    shell: StepsShell,
) -> None:
    """Until its boundary it can be continued from the one before."""
    shell.arrive()
    shell.reach("seed")
    shell.start("replay")
    shell.close()
    shell.end_step()
    shell.open()
    shell.close()
    assert shell.steps.is_ready

    shell.open()
    assert shell.reach("loop") == GOES_ON
    assert shell.state() == "running"


def test_a_replay_step_that_starts_while_closed(shell: StepsShell) -> None:
    """What had passed its boundary before stops to block when its step starts."""
    shell.arrive()
    shell.reach("seed")
    shell.close()
    assert not shell.steps.is_ready

    assert shell.start("replay") == GOES_ON
    assert shell.steps.is_ready


def test_a_replay_step_that_fails_while_closed(shell: StepsShell) -> None:
    """The episode starts over after a crash; without one it fails after the resume."""
    shell.arrive()
    shell.reach("seed")
    shell.start("replay")
    shell.close()

    assert shell.end_step(is_failed=True) == []
    assert (shell.steps.exported(), shell.steps.is_ready) == ({"a": None}, True)
    assert shell.open() == [("Wake", "a")]
    assert shell.send(on.WakeTaken("a")) == GOES_ON


def test_a_failed_replay_step_of_a_restart_does_not_wait(shell: StepsShell) -> None:
    """Nothing is exported of it that could change."""
    shell.arrive(is_restart=True)
    shell.reach("seed")
    shell.start("replay")
    shell.close()

    assert shell.end_step(is_failed=True) == GOES_ON
    assert (shell.state(), shell.boundary()) == ("running", None)


# -- restarts


def test_an_episode_becomes_a_restart_while_open(shell: StepsShell) -> None:
    """At once, and saying so again changes nothing."""
    shell.arrive()
    for _ in range(2):
        assert shell.send(on.RestartMarked("a")) == GOES_ON
    assert (shell.steps.restarts(), shell.steps.is_ready) == (("a",), True)


def test_a_mark_waits_for_the_end_of_a_checkpoint(shell: StepsShell) -> None:
    """Neither what is exported nor the restarts change while one is open."""
    shell.arrive()
    shell.reach("seed")
    shell.start("replay")
    shell.close()

    assert shell.send(on.RestartMarked("a")) == []
    assert (shell.steps.restarts(), shell.steps.exported()) == ((), {"a": "seed"})
    assert shell.open() == GOES_ON
    assert (shell.steps.restarts(), shell.steps.exported()) == (("a",), {})
    assert shell.end_step() == GOES_ON


def test_a_mark_does_not_wait_for_a_checkpoint_that_waits_for_it(
    shell: StepsShell,
) -> None:
    """An episode that blocks is in no export yet, and the two would wait for ever."""
    shell.arrive()
    shell.close()

    assert shell.send(on.RestartMarked("a")) == GOES_ON
    assert (shell.steps.restarts(), shell.steps.is_ready) == (("a",), True)


def test_a_retired_episode_is_no_restart(shell: StepsShell) -> None:
    """It blocks until it is gone."""
    shell.arrive(is_restart=True)
    shell.send(on.EpisodeRetired("a"))

    assert (shell.steps.restarts(), shell.steps.blockers()) == ((), ("a",))


# -- retire and end


def test_retire_cancels_exactly_once(shell: StepsShell) -> None:
    """A retire that is repeated waits again, and what the task still says is late."""
    shell.arrive()
    shell.reach("loop")
    shell.start("replay")
    assert shell.send(on.EpisodeRetired("a")) == [("Cancel", "a")]

    assert shell.send(on.EpisodeRetired("a")) == []
    assert shell.end_step(is_failed=True) == []
    assert shell.reach("late") == []
    assert (shell.steps.is_retiring(["b", "a"]), shell.boundary()) == (True, "loop")
    assert shell.send(on.EpisodeEnded("a")) == []
    assert (shell.steps.is_retiring(["a"]), len(shell.steps.live)) == (False, 0)


def test_retire_waits_for_a_clean_up(shell: StepsShell) -> None:
    """What is finishing frees the sessions of other servers: no cancel."""
    shell.arrive()
    shell.send(on.FinishStarted("a"))

    assert shell.send(on.EpisodeRetired("a")) == []
    assert shell.steps.is_retiring(["a"])


@pytest.mark.parametrize(
    "event",
    [
        on.BoundaryReached("a", "b"),
        on.StepStarted("a", on.StepMode.WAIT),
        on.StepEnded("a"),
        on.RestartMarked("a"),
        on.FinishStarted("a"),
        on.EpisodeEnded("a"),
        on.EpisodeRetired("a"),
        on.WakeTaken("a"),
        on.DeadlinePassed("a"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_unknown_key_changes_nothing(event: on.EpisodeEvent) -> None:
    """Events of an episode that is gone can be on their way."""
    steps = EpisodeSteps()

    assert (steps, ()) == handle(steps, event, 0.0)


def after(*events: on.EpisodeEvent) -> EpisodeSteps:
    """Return the engine after these events."""
    steps = EpisodeSteps()
    for event in events:
        steps, _ = handle(steps, event, 0.0)
    return steps


ARRIVED = on.EpisodeArrived(key="a")
AT_SEED = on.BoundaryReached("a", "seed")
SEEDING = on.StepStarted("a", on.StepMode.REPLAY)
WAITING = on.StepStarted("a", on.StepMode.WAIT)
CLOSED, ENDED = on.StepsClosed(), on.StepEnded("a")
MARKED, FINISHED = on.RestartMarked("a"), on.FinishStarted("a")


@pytest.mark.parametrize(
    ("before", "event"),
    [
        ((ARRIVED,), ENDED),
        ((ARRIVED, WAITING), WAITING),
        ((ARRIVED, WAITING), AT_SEED),
        ((ARRIVED, WAITING), FINISHED),
        ((ARRIVED, CLOSED, AT_SEED), AT_SEED),
        ((ARRIVED, CLOSED, AT_SEED), SEEDING),
        ((ARRIVED, CLOSED, AT_SEED), MARKED),
        ((ARRIVED, AT_SEED, SEEDING, CLOSED, ENDED), ENDED),
        ((ARRIVED, AT_SEED, SEEDING, CLOSED, ENDED), WAITING),
        ((ARRIVED, AT_SEED, SEEDING, CLOSED, MARKED), ENDED),
        ((ARRIVED, AT_SEED, SEEDING, CLOSED, MARKED), MARKED),
        ((ARRIVED, FINISHED), AT_SEED),
        ((ARRIVED, FINISHED), FINISHED),
    ],
)
def test_a_task_keeps_the_order(
    before: tuple[on.EpisodeEvent, ...], event: on.EpisodeEvent
) -> None:
    """A step that began elsewhere than at a boundary could run twice unnoticed."""
    steps = after(*before)

    with pytest.raises(TypeError, match="of a cannot follow"):
        handle(steps, event, 0.0)


# -- deadlines


def test_time_stands_still_while_parked(shell: StepsShell) -> None:
    """Only the time in which an episode could run is counted."""
    shell.arrive(budget=10.0)
    shell.pass_time(4.0)
    shell.close()
    shell.pass_time(1.0)
    shell.reach("seed")
    assert {} == shell.timers
    assert shell.pass_time(100.0) == []
    shell.open()
    shell.send(on.WakeTaken("a"))

    assert shell.pass_time(4.75) == []
    assert shell.pass_time(0.25) == [("Expire", "a")]
    assert shell.pass_time(100.0) == []


def test_time_stands_still_in_a_replay_step_while_closed(shell: StepsShell) -> None:
    """Another server may hold up the step because of the checkpoint."""
    shell.arrive(budget=10.0)
    shell.reach("loop")
    shell.start("replay")
    shell.pass_time(4.0)
    shell.close()
    assert shell.pass_time(100.0) == []
    shell.open()

    assert shell.pass_time(5.75) == []
    assert shell.pass_time(0.25) == [("Expire", "a")]


def test_a_clean_up_has_no_deadline(shell: StepsShell) -> None:
    """The answer is known; only sessions remain to be closed."""
    shell.arrive(budget=10.0)
    shell.send(on.FinishStarted("a"))

    assert {} == shell.timers


@pytest.mark.parametrize("event", [on.EpisodeEnded("a"), on.EpisodeRetired("a")])
def test_no_timer_is_left_behind(shell: StepsShell, event: on.EpisodeEvent) -> None:
    """What is gone or cancelled cannot run out of time."""
    shell.arrive(budget=10.0)
    shell.send(event)

    assert {} == shell.timers


def test_a_timer_that_fires_early_is_armed_again(shell: StepsShell) -> None:
    """Timers of a loop may be a little early."""
    shell.arrive(budget=10.0)
    _, actions = handle(shell.steps, on.DeadlinePassed("a"), shell.now + 9.0)

    assert (do.ArmDeadline("a", shell.now + 10.0),) == actions


def test_a_timer_that_was_disarmed_too_late_changes_nothing(shell: StepsShell) -> None:
    """Parking and the timer can cross."""
    shell.arrive(budget=10.0)
    shell.close()
    shell.reach("seed")

    assert shell.send(on.DeadlinePassed("a")) == []


def test_a_deadline_that_passed_unnoticed_is_due_at_once(shell: StepsShell) -> None:
    """A loop can be so busy that parking comes before the timer."""
    shell.arrive(budget=10.0)
    shell.close()
    shell.now += 11.0
    shell.reach("seed")
    shell.open()
    shell.send(on.WakeTaken("a"))

    assert shell.pass_time(0.0) == [("Expire", "a")]


# -- what it costs


def many(count: int) -> EpisodeSteps:
    """Return an engine with so many episodes in a replay step, and one that runs."""
    entry = EpisodeEntry()
    live = LiveEpisodes().put("a", entry)
    for number in range(count):
        live = live.put(f"ipi-{number}-a1", entry)
    steps = EpisodeSteps(live=live)
    for number in range(count):
        event = on.StepStarted(f"ipi-{number}-a1", on.StepMode.REPLAY)
        steps, _ = handle(steps, event, 0.0)
    return handle(steps, on.StepsClosed(), 0.0)[0]


def lines(work: Callable[[], object]) -> int:
    """Count the lines of Python that a piece of work executes."""
    counts: Counter[str] = Counter()

    def traced(frame: FrameType, event: str, _: object) -> Any:
        counts[event] += 1
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return counts["line"]


def test_readiness_costs_the_same_with_10000_episodes() -> None:
    """Asking, and every event of one episode, take as many lines as with ten."""
    few, all_of_them = many(10), many(10_000)
    assert (11, 10_001) == (len(few.live), len(all_of_them.live))
    events = (AT_SEED, on.EpisodeArrived(key="b"), on.EpisodeEnded("a"))

    assert lines(lambda: few.is_ready) == lines(lambda: all_of_them.is_ready) < 5
    for event in events:
        works = [partial(handle, steps, event, 0.0) for steps in (few, all_of_them)]
        assert lines(works[0]) == lines(works[1])


def test_a_change_copies_one_of_many_small_pieces() -> None:
    """Ids that count up, with or without attempts, are spread over the pieces."""
    live = many(10_000).live
    sizes = [len(piece) for piece in live._pieces]
    changed = live.put("a", EpisodeEntry())
    copied = [
        one
        for one, other in zip(live._pieces, changed._pieces, strict=True)
        if one is not other
    ]

    assert max(sizes) < 2 * sum(sizes) / len(sizes)
    assert len(copied) == 1


def test_the_live_episodes_survive_pickling() -> None:
    """Where a key is found does not depend on the process."""
    live = many(50).live

    assert dict(live) == dict(pickle.loads(pickle.dumps(live)))
    assert "ipi-7-a1" in pickle.loads(pickle.dumps(live))
    assert "other" not in live
