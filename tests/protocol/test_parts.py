"""The machine carries parts that it does not know; the rules that only such ones meet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import attrs
import pytest

from documents import at

from ipistate.errors import CheckpointError
from ipistate.protocol import (
    EpisodeId,
    Event,
    Manifest,
    PartAction,
    PartEvent,
    ParticipantState,
    Phase,
    Readiness,
    Restorable,
    Selection,
    Settings,
    handle,
    participant_status,
)
from ipistate.protocol import actions as do
from ipistate.protocol import events as on
from ipistate.protocol.operations import OPERATIONS
from ipistate.protocol.parts.resources import ResourcesPart
from ipistate.protocol.parts.retired_attempts import RetiredAttempts


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ipistate.protocol import CheckpointRecord
    from ipistate.protocol.parts.part import Emit

NOW = 1_000.0
LATE = NOW + 60


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

    def close(self, now: float, emit: Emit) -> Self:
        del now, emit
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


class Machine:
    """A machine with such a part, and what it has asked for."""

    def __init__(self, **members: Any) -> None:
        part = attrs.evolve(HoldingPart(), **members)
        self.participant = ParticipantState(Settings(instance="policy"), part)
        self.log: list[do.Action] = []

    def feed(self, event: Event, now: float = NOW) -> tuple[do.Action, ...]:
        """Take an event."""
        self.participant, actions = handle(self.participant, event, now)
        self.log += actions
        return actions

    def call(
        self, name: str, number: int, now: float = NOW, **members: Any
    ) -> tuple[do.Action, ...]:
        """Make a control call that waits for a minute."""
        base: dict[str, Any] = {"checkpoint_id": "c1", "deadline_ts": LATE}
        body = OPERATIONS[name](**{**base, **members})
        return self.feed(on.ControlCalled(number, body), now)

    def reply(self, number: int) -> tuple[int, Mapping[str, object]]:
        """Return the one reply to a call."""
        (found,) = (a for a in self.log if isinstance(a, do.Reply) and a.call == number)
        return found.status, found.document

    def code(self, number: int) -> object:
        """Return the code of a refused call."""
        found: object = at(self.reply(number)[1], "error", "code")
        return found

    def phase(self) -> Phase:
        """Return the phase now."""
        return self.participant.phase

    def restoring(self) -> Import:
        """Begin a restore, up to its installation."""
        scope = (EpisodeId("r", 0),)
        self.call("restore", 1, checkpoint_dir="d", episode_ids=scope)
        (read,) = (action for action in self.log if isinstance(action, do.Read))
        manifest = Manifest(
            kind="model",
            instance="policy",
            checkpoint_id="c0",
            records_file="records.jsonl",
            records_sha256="0" * 64,
            record_count=1,
        )
        found = Restorable(manifest, (HeldRecord(EpisodeId("r", 0)),))
        (begun,) = self.feed(on.ReadEnded(read.read, found))[:1]
        assert isinstance(begun, Import)
        return begun


def test_a_prepare_waits_for_events_of_the_part() -> None:
    """The machine settles after each of them, whatever it means."""
    machine = Machine(running=frozenset({"r", "s"}))
    machine.call("prepare", 1)
    assert not machine.participant.part.is_open
    machine.feed(Delivered("r"))
    assert Phase.PREPARING is machine.phase()
    machine.feed(Delivered("s"))

    assert "prepared" == machine.reply(1)[1]["phase"]


def test_a_commit_refuses_a_scope_with_a_restart() -> None:
    """No record keeps it, so the controller must not count on it; nothing is written."""
    machine = Machine(restarts=("r", "t"))
    machine.call("prepare", 1)
    machine.call("commit", 2, checkpoint_dir="d", episode_ids=(EpisodeId("r", 0),))
    assert (409, "restart_in_scope") == (machine.reply(2)[0], machine.code(2))
    assert not any(isinstance(action, do.Export | do.Write) for action in machine.log)
    machine.call("commit", 3, checkpoint_dir="d", episode_ids=(EpisodeId("s", 0),))

    assert any(isinstance(action, do.Export) for action in machine.log)


def test_a_commit_whose_part_needs_a_scope() -> None:
    """It is refused by the part's words, and may be repeated with one."""
    machine = Machine()
    machine.call("prepare", 1)
    machine.call("commit", 2, checkpoint_dir="d")

    assert "checkpoint_error" == machine.code(2)
    assert Phase.PREPARED is machine.phase()


def test_a_commit_shows_what_its_part_adds() -> None:
    """Records that the part knows are written; its members join the reply."""
    machine = Machine()
    machine.call("prepare", 1)
    machine.call("commit", 2, checkpoint_dir="d", episode_ids=(EpisodeId("r", 0),))
    machine.feed(on.Exported(1, {}))
    (write,) = (action for action in machine.log if isinstance(action, do.Write))
    assert (HeldRecord(EpisodeId("r", 0)),) == write.records
    manifest = Manifest(
        kind="model",
        instance="policy",
        checkpoint_id="c1",
        records_file="records.jsonl",
        records_sha256="0" * 64,
        record_count=1,
    )
    machine.feed(on.WriteEnded(write.write, manifest))

    assert ["r"] == at(machine.reply(2)[1], "staging_keys")


def test_a_restore_waits_for_the_installation() -> None:
    """It is answered when the part's shell says that it is done."""
    machine = Machine()
    begun = machine.restoring()
    assert Phase.IDLE is machine.phase()
    machine.feed(on.Installed(begun.read + 7))
    machine.feed(on.Installed(begun.read))

    assert (200, ["r-a1"]) == (
        machine.reply(1)[0],
        at(machine.reply(1)[1], "restored"),
    )
    assert Phase.RESTORED is machine.phase()
    status = participant_status(machine.participant)
    assert ("model", ["r-a1"]) == (status["kind"], at(status, "restored_pending"))


def test_an_installation_that_fails_leaves_nothing() -> None:
    """The call gets its code, admission is open, and the restore may be repeated."""
    machine = Machine()
    begun = machine.restoring()
    problem = CheckpointError("invalid_checkpoint_state", "no room")
    machine.feed(on.Installed(begun.read, problem))

    assert (422, "invalid_checkpoint_state") == (machine.reply(1)[0], machine.code(1))
    assert (True, ()) == (
        machine.participant.part.is_open,
        machine.participant.part.imported,
    )


@pytest.mark.parametrize("is_dropped", [False, True])
def test_an_installation_that_outlives_its_call(is_dropped: bool) -> None:
    """It keeps the lock until it ends, and then leaves nothing: nobody would resume it."""
    machine = Machine()
    begun = machine.restoring()
    if is_dropped:
        machine.feed(on.ControlDropped(1))
    else:
        machine.feed(on.Tick(), LATE)
        assert "deadline_exceeded" == machine.code(1)
    machine.call("prepare", 2, LATE, deadline_ts=LATE + 60)
    assert machine.participant.part.is_installing
    machine.feed(on.Tick(), LATE + 1)
    machine.feed(on.Installed(begun.read), LATE + 2)

    assert () == machine.participant.part.imported
    assert "prepared" == machine.reply(2)[1]["phase"]
    machine.feed(on.Installed(begun.read), LATE + 3)
    assert Phase.PREPARED is machine.phase()


def test_a_late_answer_to_a_read_means_nothing() -> None:
    """The caller of a restore that only read has gone; nothing is installed."""
    machine = Machine()
    machine.call("restore", 1, checkpoint_dir="d", episode_ids=(EpisodeId("r", 0),))
    machine.feed(on.ControlDropped(1))
    problem = CheckpointError("invalid_checkpoint_state", "damaged")
    machine.feed(on.ReadEnded(1, problem))

    assert not any(isinstance(action, do.Reply) for action in machine.log)


def test_a_resources_part_has_no_installation_to_end() -> None:
    """Its sessions are there at once, and events of other kinds mean nothing to it."""
    part = ResourcesPart()

    assert part is part.installed(None, NOW, print)
    assert part is part.take(Delivered("r"), NOW, print)
    assert part is part.freed(3)
