"""The part of an environment server, carried by the control machine."""

from __future__ import annotations

from typing import Any

import pytest

from machines import NOW, Machine

from ipistate.protocol import EpisodeId, Phase, participant_status
from ipistate.protocol import actions as do
from ipistate.protocol.parts.environment import (
    EnvironmentPart,
    RunArrived,
    StartEpisode,
)
from ipistate.protocol.steps import actions as told
from ipistate.protocol.steps import events as steps
from ipistate.protocol.steps.episode_records import EnvironmentRecord


DIGEST = "d" * 64
R0 = EpisodeId("r", 0)
R1 = EpisodeId("r", 1)


class EnvironmentMachine(Machine[EnvironmentPart]):
    """An environment server's machine."""

    requests = 100

    def run(
        self, episode: EpisodeId = R0, digest: str = DIGEST, **members: Any
    ) -> tuple[do.Action, ...]:
        """Send ``/run`` and return what the arrival caused."""
        self.requests += 1
        arrived = RunArrived(
            request=self.requests, episode=episode, task_digest=digest, **members
        )
        return self.feed(arrived)

    def refused(self, episode: EpisodeId = R0, digest: str = DIGEST) -> str:
        """Send ``/run``, which is refused, and return the code."""
        (refuse,) = self.run(episode, digest)
        assert isinstance(refuse, do.Refuse)
        assert 409 == refuse.status
        return refuse.code


@pytest.fixture
def machine() -> EnvironmentMachine:
    """Return a fresh machine."""
    return EnvironmentMachine(EnvironmentPart())


def record(
    boundary: object = "at seed", episode: EpisodeId = R0
) -> EnvironmentRecord[Any]:
    """Make a record of an episode."""
    return EnvironmentRecord(episode_id=episode, task_digest=DIGEST, boundary=boundary)


def started(actions: tuple[do.Action, ...]) -> StartEpisode:
    """Return the start among actions."""
    (start,) = (action for action in actions if isinstance(action, StartEpisode))
    return start


def test_an_episode_starts_and_ends(machine: EnvironmentMachine) -> None:
    """Its task runs after the engine's word; the end leaves nothing."""
    start, proceed = machine.run()
    assert StartEpisode(101, "r", None) == start
    assert told.Proceed("r") == proceed
    assert {"episodes": 1} == machine.part.report().counts
    machine.feed(steps.EpisodeEnded("r"))

    assert EnvironmentPart() == machine.part


def test_the_order_of_the_checks(machine: EnvironmentMachine) -> None:
    """A mark, an open checkpoint, another task, a run: the first that applies refuses."""
    machine.run()
    assert "checkpoint_error" == machine.refused()
    machine.call("prepare")
    assert "admission_closed" == machine.refused()
    machine.call("resume")
    machine.feed(steps.EpisodeEnded("r"))
    machine.call("retire", episode_ids=(R0,))
    machine.call("prepare", checkpoint_id="c2")

    assert "stale_attempt" == machine.refused()


def test_a_prepare_waits_for_the_next_boundary(machine: EnvironmentMachine) -> None:
    """It parks there, its boundary is the record, and the resume wakes it."""
    machine.run()
    machine.call("prepare")
    assert ("r",) == machine.part.report().blockers
    assert Phase.PREPARING is machine.phase()
    parked = machine.feed(steps.BoundaryReached("r", "at verify"))
    assert not any(isinstance(action, told.Proceed) for action in parked)
    assert [record("at verify")] == machine.commit(R0)
    machine.call("resume")
    assert told.Wake("r") == machine.last(told.Wake)
    assert (told.Proceed("r"),) == machine.feed(steps.WakeTaken("r"))


def test_a_restart_is_named_and_not_recorded(machine: EnvironmentMachine) -> None:
    """It neither blocks nor stands in the records, and no scope may count on it."""
    machine.run(is_restart=True)
    prepare = machine.call("prepare")
    assert ["r"] == machine.reply(prepare)["report"]["restarts"]
    commit = machine.call("commit", checkpoint_dir="d", episode_ids=(R0,))

    assert "restart_in_scope" == machine.code(commit)


def test_a_restored_episode_continues_as_the_next_attempt(
    machine: EnvironmentMachine,
) -> None:
    """After the resume of the restore, and only with the task that it began with."""
    machine.restore(record())
    assert "admission_closed" == machine.refused(R1)
    machine.call("resume", checkpoint_id="r1")
    assert ["r-a1"] == participant_status(machine.participant)["restored_pending"]
    assert "checkpoint_error" == machine.refused(R1, "e" * 64)
    assert "at seed" == started(machine.run(R1)).boundary
    assert {} == machine.part.restored


def test_a_second_checkpoint_before_the_replacement_starts(
    machine: EnvironmentMachine,
) -> None:
    """The replacement is let in and parks; its record is of the next attempt."""
    machine.restored(record())
    machine.call("prepare", checkpoint_id="c2")
    assert "at seed" == started(machine.run(R1)).boundary

    assert [record(episode=R1)] == machine.commit(R1, checkpoint_id="c2")


@pytest.mark.parametrize("scope", [None, (R1,), ()])
def test_restored_episodes_that_nobody_has_sent(
    machine: EnvironmentMachine, scope: tuple[EpisodeId, ...] | None
) -> None:
    """In the scope they are written as the next attempt; outside it they are dropped."""
    machine.restored(record(), record("x", EpisodeId("s", 2)))
    written = machine.commit(*scope or (), all_of_them=scope is None)
    keys = [one.episode_id.capture_key for one in written]
    expected = ["r-a1", "s-a3"] if scope is None else [one.capture_key for one in scope]

    assert expected == keys == sorted(machine.part.restored)


@pytest.mark.parametrize("is_live", [True, False])
def test_a_restore_wants_a_process_without_episodes(
    machine: EnvironmentMachine,
    is_live: bool,
) -> None:
    """Live ones and restored ones refuse it alike."""
    if is_live:
        machine.run()
    else:
        machine.restored(record())

    assert "checkpoint_error" == machine.code(machine.restore(checkpoint_id="r2"))


def test_a_retire_cancels_once_and_waits(machine: EnvironmentMachine) -> None:
    """It is answered when the task has ended and what was restored is dropped."""
    machine.restored(record(episode=EpisodeId("s", 0)), record())
    machine.run(R1)
    retire = machine.call("retire", episode_ids=(R1, EpisodeId("s", 1)))
    assert () == machine.feed(steps.DeadlinePassed("r-a1"))
    machine.feed(steps.EpisodeEnded("r-a1"))

    assert 1 == sum(isinstance(action, told.Cancel) for action in machine.log)
    assert ["r-a1", "s-a1"] == machine.reply(retire)["retired"]
    assert {} == machine.part.restored
    machine.call("forget", rollout_ids=("r", "s"))
    assert EnvironmentPart() == machine.part


def test_a_retire_of_nothing_and_of_what_was_restored(
    machine: EnvironmentMachine,
) -> None:
    """Both are answered at once."""
    machine.restored(record())
    unknown = machine.call("retire", episode_ids=(EpisodeId("other", 0),))
    restored = machine.call("retire", episode_ids=(R1,))

    assert ["other"] == machine.reply(unknown)["retired"]
    assert ["r-a1"] == machine.reply(restored)["retired"]
    assert {} == machine.part.restored


def test_what_an_environment_has_no_use_for() -> None:
    """Its records are installed at once, nobody waits at its gate, nothing is freed."""
    part = EnvironmentPart()

    assert part is part.installed(None, NOW, print)
    assert part is part.freed(1)
    assert () == part.unwanted(None)
    assert not part.leaves(steps.EpisodeEnded("r"))
    assert not part.is_installing
