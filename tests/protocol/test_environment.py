"""The part of an environment server, carried by the control machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from documents import at

from ipistate.protocol import (
    EpisodeId,
    Event,
    Manifest,
    ParticipantState,
    Phase,
    Restorable,
    Settings,
    handle,
    participant_status,
)
from ipistate.protocol import actions as do
from ipistate.protocol import events as on
from ipistate.protocol.operations import OPERATIONS
from ipistate.protocol.parts.environment import (
    EnvironmentPart,
    RunArrived,
    StartEpisode,
)
from ipistate.protocol.steps import actions as told
from ipistate.protocol.steps import events as steps
from ipistate.protocol.steps.episode_records import EnvironmentRecord


NOW = 1_000.0
LATE = NOW + 60
DIGEST = "d" * 64
R0 = EpisodeId("r", 0)
R1 = EpisodeId("r", 1)


class Machine:
    """An environment server's machine, and what it has asked for."""

    def __init__(self) -> None:
        self.participant = ParticipantState(
            Settings(instance="environment"), EnvironmentPart()
        )
        self.log: list[do.Action] = []
        self.requests = 100

    @property
    def part(self) -> EnvironmentPart:
        """The part as it is now."""
        return self.participant.part

    def feed(self, event: Event, now: float = NOW) -> tuple[do.Action, ...]:
        """Take an event."""
        before, frozen = self.participant, repr(self.participant)
        self.participant, actions = handle(before, event, now)
        assert frozen == repr(before)
        self.log += actions
        return actions

    def call(self, name: str, number: int, **members: Any) -> tuple[do.Action, ...]:
        """Make a control call that waits for a minute."""
        base: dict[str, Any] = {"checkpoint_id": "c1", "deadline_ts": LATE}
        return self.feed(
            on.ControlCalled(number, OPERATIONS[name](**{**base, **members}))
        )

    def reply(self, number: int) -> Mapping[str, Any]:
        """Return the one reply to a call."""
        (found,) = (a for a in self.log if isinstance(a, do.Reply) and a.call == number)
        return found.document

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

    def commit(self, *scope: EpisodeId) -> list[EnvironmentRecord[Any]]:
        """Prepare, commit, publish, and return the records."""
        self.call("prepare", 1)
        self.call("commit", 2, checkpoint_dir="d", episode_ids=scope or None)
        (export,) = (action for action in self.log if isinstance(action, do.Export))
        assert () == export.keys
        self.feed(on.Exported(export.write, {}))
        (write,) = (action for action in self.log if isinstance(action, do.Write))
        self.feed(on.WriteEnded(write.write, MANIFEST))
        records: Any = write.records
        return list(records)

    def restore(self, *records: EnvironmentRecord[Any]) -> None:
        """Restore these records; not resumed."""
        scope = tuple(record.episode_id for record in records)
        self.call("restore", 3, checkpoint_dir="d", episode_ids=scope)
        read = next(a for a in reversed(self.log) if isinstance(a, do.Read))
        self.feed(on.ReadEnded(read.read, Restorable(MANIFEST, records)))


MANIFEST = Manifest(
    kind="environment",
    instance="environment",
    checkpoint_id="c0",
    records_file="records.jsonl",
    records_sha256="0" * 64,
    record_count=1,
)


def record(
    boundary: object = "at seed", episode: EpisodeId = R0
) -> EnvironmentRecord[Any]:
    """Make a record of an episode."""
    return EnvironmentRecord(episode_id=episode, task_digest=DIGEST, boundary=boundary)


def started(actions: tuple[do.Action, ...]) -> StartEpisode:
    """Return the start among actions."""
    (start,) = (action for action in actions if isinstance(action, StartEpisode))
    return start


def test_an_episode_starts_and_ends() -> None:
    """Its task runs after the engine's word; the end leaves nothing."""
    machine = Machine()
    start, proceed = machine.run()
    assert StartEpisode(101, "r", None) == start
    assert told.Proceed("r") == proceed
    assert {"episodes": 1} == machine.part.report().counts
    machine.feed(steps.EpisodeEnded("r"))

    assert EnvironmentPart() == machine.part


def test_the_order_of_the_checks() -> None:
    """A mark, an open checkpoint, another task, a run: the first that applies refuses."""
    machine = Machine()
    machine.run()
    assert "checkpoint_error" == machine.refused()
    machine.call("prepare", 1)
    assert "admission_closed" == machine.refused()
    machine.call("resume", 2)
    machine.feed(steps.EpisodeEnded("r"))
    machine.call("retire", 3, episode_ids=(R0,))
    machine.call("prepare", 4, checkpoint_id="c2")

    assert "stale_attempt" == machine.refused()


def test_a_prepare_waits_for_the_next_boundary() -> None:
    """It parks there, its boundary is the record, and the resume wakes it."""
    machine = Machine()
    machine.run()
    machine.call("prepare", 1)
    assert ("r",) == machine.part.report().blockers
    assert Phase.PREPARING is machine.participant.phase
    assert () == tuple(
        action
        for action in machine.feed(steps.BoundaryReached("r", "at verify"))
        if isinstance(action, told.Proceed)
    )
    assert [record("at verify")] == machine.commit(R0)
    assert told.Wake("r") in machine.call("resume", 4)
    assert (told.Proceed("r"),) == machine.feed(steps.WakeTaken("r"))


def test_a_restart_is_named_and_not_recorded() -> None:
    """It neither blocks nor stands in the records, and no scope may count on it."""
    machine = Machine()
    machine.run(is_restart=True)
    machine.call("prepare", 1)
    assert ["r"] == machine.reply(1)["report"]["restarts"]
    machine.call("commit", 2, checkpoint_dir="d", episode_ids=(R0,))

    assert "restart_in_scope" == at(machine.reply(2), "error", "code")


def test_a_restored_episode_continues_as_the_next_attempt() -> None:
    """After the resume of the restore, and only with the task that it began with."""
    machine = Machine()
    machine.restore(record())
    assert "admission_closed" == machine.refused(R1)
    machine.call("resume", 4)
    assert ["r-a1"] == participant_status(machine.participant)["restored_pending"]
    assert "checkpoint_error" == machine.refused(R1, "e" * 64)
    assert "at seed" == started(machine.run(R1)).boundary
    assert {} == machine.part.restored


def test_a_second_checkpoint_before_the_replacement_starts() -> None:
    """The record is written again, as of the next attempt; the replacement parks."""
    machine = Machine()
    machine.restore(record())
    machine.call("resume", 4)
    machine.call("prepare", 5, checkpoint_id="c2")
    start = started(machine.run(R1))
    assert "at seed" == start.boundary
    machine.call("commit", 6, checkpoint_id="c2", checkpoint_dir="e", episode_ids=(R1,))
    (export,) = (action for action in machine.log if isinstance(action, do.Export))
    machine.feed(on.Exported(export.write, {}))
    (write,) = (action for action in machine.log if isinstance(action, do.Write))

    assert (record(episode=R1),) == write.records


@pytest.mark.parametrize("scope", [None, (R1,), ()])
def test_restored_episodes_that_nobody_has_sent(
    scope: tuple[EpisodeId, ...] | None,
) -> None:
    """In the scope they are written as the next attempt; outside it they are dropped."""
    machine = Machine()
    machine.restore(record(), record("x", EpisodeId("s", 2)))
    machine.call("resume", 4)
    machine.call("prepare", 5, checkpoint_id="c2")
    machine.call("commit", 6, checkpoint_id="c2", checkpoint_dir="e", episode_ids=scope)
    (export,) = (action for action in machine.log if isinstance(action, do.Export))
    machine.feed(on.Exported(export.write, {}))
    (write,) = (action for action in machine.log if isinstance(action, do.Write))
    machine.feed(on.WriteEnded(write.write, MANIFEST))
    for free in [action for action in machine.log if isinstance(action, do.Free)]:
        machine.feed(on.Freed(free.removal))

    written = [one.episode_id.capture_key for one in write.records]
    named = ["r-a1", "s-a3"]
    expected = named if scope is None else [one.capture_key for one in scope]
    assert expected == written == sorted(machine.part.restored)
    assert "committed" == machine.reply(6)["phase"]


def test_a_restore_wants_a_process_without_episodes() -> None:
    """Live ones and restored ones refuse it alike."""
    live, restored = Machine(), Machine()
    live.run()
    restored.restore(record())
    restored.call("resume", 4)
    for machine in (live, restored):
        machine.call(
            "restore", 9, checkpoint_id="c9", checkpoint_dir="d", episode_ids=()
        )
        read = next(a for a in reversed(machine.log) if isinstance(a, do.Read))
        machine.feed(on.ReadEnded(read.read, Restorable(MANIFEST, ())))

        assert "checkpoint_error" == at(machine.reply(9), "error", "code")


def test_a_retire_cancels_once_and_waits() -> None:
    """It is answered when the task has ended and what was restored is dropped."""
    machine = Machine()
    machine.restore(record(episode=EpisodeId("s", 0)), record())
    machine.call("resume", 4)
    machine.run(R1)
    actions = machine.call("retire", 5, episode_ids=(R1, EpisodeId("s", 1)))
    assert [told.Cancel("r-a1")] == [a for a in actions if isinstance(a, told.Cancel)]
    assert () == machine.feed(steps.DeadlinePassed("r-a1"))
    machine.feed(steps.EpisodeEnded("r-a1"))

    assert ["r-a1", "s-a1"] == machine.reply(5)["retired"]
    assert {} == machine.part.restored
    machine.call("forget", 6, rollout_ids=("r", "s"))
    assert EnvironmentPart() == machine.part


def test_a_retire_of_nothing_and_of_what_was_restored() -> None:
    """Both are answered at once."""
    machine = Machine()
    machine.restore(record())
    machine.call("resume", 4)
    machine.call("retire", 5, episode_ids=(EpisodeId("other", 0),))
    machine.call("retire", 6, episode_ids=(R1,))

    assert (["other"], ["r-a1"]) == (
        machine.reply(5)["retired"],
        machine.reply(6)["retired"],
    )
    assert {} == machine.part.restored


def test_what_an_environment_has_no_use_for() -> None:
    """Its records are installed at once, nobody waits at its gate, nothing is freed."""
    part = EnvironmentPart()

    assert part is part.installed(None, NOW, print)
    assert part is part.freed(1)
    assert () == part.unwanted(None)
    assert not part.leaves(steps.EpisodeEnded("r"))
    assert not part.is_installing
