"""The machine carries parts that it does not know; the rules that only such ones meet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import attrs
import pytest

from documents import at
from machines import LATE, NOW, Machine

from ipistate.errors import CheckpointError
from ipistate.protocol import (
    EpisodeId,
    PartAction,
    PartEvent,
    Phase,
    Readiness,
    Selection,
    participant_status,
)
from ipistate.protocol import actions as do
from ipistate.protocol import events as on
from ipistate.protocol.parts.resources import ResourcesPart
from ipistate.protocol.parts.retired_attempts import RetiredAttempts


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ipistate.protocol import CheckpointRecord
    from ipistate.protocol.parts.part import Emit

R0 = EpisodeId("r", 0)


@attrs.frozen
class Import(PartAction):
    """Asks for an installation that takes time."""

    read: int


@attrs.frozen
class Delivered(PartEvent):
    """A response has left."""

    key: str


@attrs.frozen
class HeldRecord:
    """What a checkpoint keeps of an episode here."""

    episode_id: EpisodeId


@attrs.frozen(kw_only=True)
class HoldingPart:
    """Holds responses while it is closed, imports slowly, and needs a scope."""

    kind: ClassVar[str] = "model"

    is_open: bool = True
    running: frozenset[str] = frozenset()
    restarts: tuple[str, ...] = ()
    importing: int | None = None
    imported: tuple[str, ...] = ()
    retired: RetiredAttempts = attrs.field(factory=RetiredAttempts)

    def take(self, event: PartEvent, now: float, emit: Emit) -> Self:
        del now, emit
        assert isinstance(event, Delivered)
        return attrs.evolve(self, running=self.running - {event.key})

    def leaves(self, event: PartEvent) -> bool:
        del event
        return False

    def close(self, now: float, deadline: float, emit: Emit) -> Self:
        del now, deadline, emit
        return attrs.evolve(self, is_open=False)

    def open(self, now: float, emit: Emit) -> Self:
        del now, emit
        return attrs.evolve(self, is_open=True)

    @property
    def is_ready(self) -> bool:
        return not self.running

    def report(self) -> Readiness:
        running = tuple(sorted(self.running))
        return Readiness(
            ready=not running,
            blockers=running,
            counts={"held": 0},
            restarts=self.restarts,
        )

    def status(self) -> Mapping[str, object]:
        return {"restored_pending": self.imported}

    def select(self, scope: frozenset[str] | None) -> Selection | str:
        if scope is None:
            return "a scope is required"
        records = tuple(HeldRecord(EpisodeId(key, 0)) for key in sorted(scope))
        return Selection(records=records)

    def exported(
        self, selection: Selection, states: Mapping[str, object]
    ) -> tuple[Self, tuple[CheckpointRecord, ...]]:
        assert not states
        return self, selection.records

    def committed(self, records: Sequence[CheckpointRecord]) -> Mapping[str, object]:
        return {"staging_keys": tuple(one.episode_id.capture_key for one in records)}

    def unwanted(self, scope: frozenset[str] | None) -> tuple[str, ...]:
        del scope
        return ()

    def removed(self, keys: Sequence[str]) -> Self:
        del keys
        return self

    def objection(self) -> str | None:
        return None

    def install(
        self,
        records: Sequence[CheckpointRecord],
        scope: Sequence[EpisodeId],
        number: int,
        emit: Emit,
    ) -> Self:
        del records
        emit(Import(number))
        imported = tuple(episode.next_attempt.capture_key for episode in scope)
        return attrs.evolve(self, is_open=False, importing=number, imported=imported)

    @property
    def is_installing(self) -> bool:
        return self.importing is not None

    def installed(
        self, problem: CheckpointError | None, now: float, emit: Emit
    ) -> Self:
        del now, emit
        if problem is None:
            return attrs.evolve(self, importing=None)
        return attrs.evolve(self, is_open=True, importing=None, imported=())

    def marked(self, attempts: Mapping[str, int]) -> Self:
        return attrs.evolve(self, retired=self.retired.marked(attempts))

    def leaving(self, attempts: Mapping[str, int]) -> bool:
        return bool(attempts.keys() & self.running)

    def freeing(
        self, attempts: Mapping[str, int], number: int, now: float, emit: Emit
    ) -> Self:
        del attempts, number, now, emit
        return self

    def freed(self, removal: int) -> Self:
        del removal
        return self

    def forgotten(self, rollouts: frozenset[str]) -> Self:
        return attrs.evolve(self, retired=self.retired.forgotten(rollouts))


def holding(**members: Any) -> Machine[HoldingPart]:
    """Return a machine with such a part."""
    return Machine(attrs.evolve(HoldingPart(), **members))


def restoring(machine: Machine[HoldingPart]) -> tuple[int, int]:
    """Begin a restore, up to its installation; return the call and its number."""
    call = machine.restore(HeldRecord(R0), checkpoint_id="c1")
    begun: Import = machine.last(Import)
    return call, begun.read


def test_a_prepare_waits_for_events_of_the_part() -> None:
    """The machine settles after each of them, whatever it means."""
    machine = holding(running=frozenset({"r", "s"}))
    prepare = machine.call("prepare")
    assert not machine.part.is_open
    machine.feed(Delivered("r"))
    assert Phase.PREPARING is machine.phase()
    machine.feed(Delivered("s"))

    assert "prepared" == machine.reply(prepare)["phase"]


def test_a_commit_refuses_a_scope_with_a_restart() -> None:
    """No record keeps it, so the controller must not count on it; nothing is written."""
    machine = holding(restarts=("r", "t"))
    machine.call("prepare")
    commit = machine.call("commit", checkpoint_dir="d", episode_ids=(R0,))
    assert "restart_in_scope" == machine.code(commit)
    assert not any(isinstance(action, do.Export | do.Write) for action in machine.log)
    machine.call("commit", checkpoint_dir="d", episode_ids=(EpisodeId("s", 0),))

    assert any(isinstance(action, do.Export) for action in machine.log)


def test_a_commit_whose_part_needs_a_scope() -> None:
    """It is refused by the part's words, and may be repeated with one."""
    machine = holding()
    machine.call("prepare")

    assert "checkpoint_error" == machine.code(
        machine.call("commit", checkpoint_dir="d")
    )
    assert Phase.PREPARED is machine.phase()


def test_a_commit_shows_what_its_part_adds() -> None:
    """Records that the part knows are written; its members join the reply."""
    machine = holding()
    assert [HeldRecord(R0)] == machine.commit(R0)

    assert ["r"] == machine.last(do.Reply).document["staging_keys"]


def test_a_restore_waits_for_the_installation() -> None:
    """It is answered when the part's shell says that it is done."""
    machine = holding()
    call, read = restoring(machine)
    assert Phase.IDLE is machine.phase()
    machine.feed(on.Installed(read + 7))
    machine.feed(on.Installed(read))

    assert ["r-a1"] == machine.reply(call)["restored"]
    assert Phase.RESTORED is machine.phase()
    status = participant_status(machine.participant)
    assert ("model", ["r-a1"]) == (status["kind"], at(status, "restored_pending"))


def test_an_installation_that_fails_leaves_nothing() -> None:
    """The call gets its code, admission is open, and the restore may be repeated."""
    machine = holding()
    call, read = restoring(machine)
    problem = CheckpointError("invalid_checkpoint_state", "no room")
    machine.feed(on.Installed(read, problem))

    assert "invalid_checkpoint_state" == machine.code(call)
    assert (True, ()) == (machine.part.is_open, machine.part.imported)


@pytest.mark.parametrize("is_dropped", [False, True])
def test_an_installation_that_outlives_its_call(is_dropped: bool) -> None:
    """It keeps the lock until it ends, and then leaves nothing: nobody would resume it."""
    machine = holding()
    call, read = restoring(machine)
    if is_dropped:
        machine.feed(on.ControlDropped(call))
    else:
        machine.feed(on.Tick(), LATE)
        assert "deadline_exceeded" == machine.code(call)
    prepare = machine.call("prepare", LATE, deadline_ts=LATE + 60)
    assert machine.part.is_installing
    machine.feed(on.Tick(), LATE + 1)
    machine.feed(on.Installed(read), LATE + 2)

    assert () == machine.part.imported
    assert "prepared" == machine.reply(prepare)["phase"]
    machine.feed(on.Installed(read), LATE + 3)
    assert Phase.PREPARED is machine.phase()


def test_a_late_answer_to_a_read_means_nothing() -> None:
    """The caller of a restore that only read has gone; nothing is installed."""
    machine = holding()
    call = machine.call("restore", checkpoint_dir="d", episode_ids=(R0,))
    machine.feed(on.ControlDropped(call))
    problem = CheckpointError("invalid_checkpoint_state", "damaged")
    machine.feed(on.ReadEnded(1, problem))

    assert not any(isinstance(action, do.Reply) for action in machine.log)


def test_a_resources_part_has_no_installation_to_end() -> None:
    """Its sessions are there at once, and events of other kinds mean nothing to it."""
    part = ResourcesPart()

    assert part is part.installed(None, NOW, print)
    assert part is part.take(Delivered("r"), NOW, print)
    assert part is part.freed(3)
