"""A control machine with any part: fed by hand, with what it has asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic

from documents import at

from ipistate.protocol import (
    CheckpointRecord,
    EpisodeId,
    Event,
    Manifest,
    ParticipantState,
    PartT,
    Phase,
    Restorable,
    Settings,
    handle,
)
from ipistate.protocol import actions as do
from ipistate.protocol import events as on
from ipistate.protocol.operations import OPERATIONS


NOW = 1_000.0
LATE = NOW + 60


class Machine(Generic[PartT]):
    """Takes events; every one leaves the state before it as it was."""

    def __init__(self, part: PartT) -> None:
        self.participant = ParticipantState(Settings(instance="one"), part)
        self.log: list[do.Action] = []
        self.calls = 0

    @property
    def part(self) -> PartT:
        """The part as it is now."""
        return self.participant.part

    def phase(self) -> Phase:
        """Return the phase now."""
        return self.participant.phase

    def feed(self, event: Event, now: float = NOW) -> tuple[do.Action, ...]:
        """Take an event, and return what it caused."""
        before, frozen = self.participant, repr(self.participant)
        self.participant, actions = handle(before, event, now)
        assert frozen == repr(before)
        self.log += actions
        return actions

    def call(self, name: str, now: float = NOW, **members: Any) -> int:
        """Make a control call that waits for a minute, and return its number."""
        self.calls += 1
        base: dict[str, Any] = {"checkpoint_id": "c1", "deadline_ts": LATE}
        body = OPERATIONS[name](**{**base, **members})
        self.feed(on.ControlCalled(self.calls, body), now)
        return self.calls

    def reply(self, call: int) -> Mapping[str, Any]:
        """Return the one reply to a call."""
        (found,) = (a for a in self.log if isinstance(a, do.Reply) and a.call == call)
        return found.document

    def code(self, call: int) -> object:
        """Return the code of a refused call."""
        found: object = at(self.reply(call), "error", "code")
        return found

    def last(self, kind: type[Any]) -> Any:
        """Return the last action of a kind."""
        return next(action for action in reversed(self.log) if isinstance(action, kind))

    def manifest(self) -> Manifest:
        """Return the manifest of any checkpoint."""
        return Manifest(
            kind=self.part.kind,
            instance="one",
            checkpoint_id="c0",
            records_file="records.jsonl",
            records_sha256="0" * 64,
            record_count=1,
        )

    def commit(
        self, *scope: EpisodeId, checkpoint_id: str = "c1", all_of_them: bool = False
    ) -> list[Any]:
        """Prepare, commit and publish a checkpoint, and return its records."""
        self.call("prepare", checkpoint_id=checkpoint_id)
        assert Phase.PREPARED is self.phase()
        call = self.call(
            "commit",
            checkpoint_id=checkpoint_id,
            checkpoint_dir="d",
            episode_ids=None if all_of_them else scope,
        )
        export = self.last(do.Export)
        assert () == export.keys
        self.feed(on.Exported(export.write, {}))
        write = self.last(do.Write)
        self.feed(on.WriteEnded(write.write, self.manifest()))
        for free in [action for action in self.log if isinstance(action, do.Free)]:
            self.feed(on.Freed(free.removal))
        assert "committed" == self.reply(call)["phase"]
        return list(write.records)

    def restore(self, *records: CheckpointRecord, checkpoint_id: str = "r1") -> int:
        """Read these records for a restore, and return its call."""
        scope = tuple(record.episode_id for record in records)
        call = self.call(
            "restore",
            checkpoint_id=checkpoint_id,
            checkpoint_dir="d",
            episode_ids=scope,
        )
        found = Restorable(self.manifest(), records)
        self.feed(on.ReadEnded(self.last(do.Read).read, found))
        return call

    def restored(self, *records: CheckpointRecord) -> None:
        """Restore these records, and resume."""
        self.restore(*records)
        self.call("resume", checkpoint_id="r1")
