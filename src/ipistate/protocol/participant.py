"""The state of the control machine, as immutable records.

The phase and the part cannot disagree: a checkpoint is open exactly while the part is
closed, and everything that lives as long as a checkpoint is kept inside it. Only a
participant that waits for a restore is closed without one.
"""

from __future__ import annotations

import math

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Generic, Self, TypeAlias

import attrs

from ipistate.errors import SchemaError, preview
from ipistate.kernel import JsonObject
from ipistate.protocol.episode import SAFE_NAME
from ipistate.protocol.events import ControlCalled
from ipistate.protocol.operations import (
    CommitBody,
    ControlBody,
    RestoreBody,
    RetireBody,
)
from ipistate.protocol.parts.part import PartT, Selection
from ipistate.protocol.records import CheckpointRecord, Manifest, Restorable


DEFAULT_LEASE_GRACE: Final = 600.0


class Phase(StrEnum):
    """The phases of a participant (docs/reference/control-plane.md, section 2.4)."""

    IDLE = "idle"
    PREPARING = "preparing"
    PREPARED = "prepared"
    COMMITTED = "committed"
    RESTORED = "restored"


def _check_instance(_: object, __: object, value: str) -> None:
    if SAFE_NAME.fullmatch(value) is None:
        message = f"an instance name matches ^{SAFE_NAME.pattern}$"
        raise SchemaError("invalid_name", message, preview=preview(value))


def _check_grace(_: object, __: object, value: float) -> None:
    if not 0 < value < math.inf:
        message = "the lease's grace is a positive number of seconds"
        raise SchemaError("invalid_grace", message, preview=preview(value))


@attrs.frozen(kw_only=True)
class Settings:
    """What the operator decides about a participant."""

    instance: str = attrs.field(validator=_check_instance)
    lease_grace_seconds: float = attrs.field(
        default=DEFAULT_LEASE_GRACE, validator=_check_grace
    )


@attrs.frozen
class Arguments:
    """What a retry of a commit or a restore must have in common with the first."""

    directory: str
    scope: tuple[str, ...] | None

    @classmethod
    def of(cls, body: CommitBody | RestoreBody) -> Self:
        """Take them from a body."""
        scope = body.episode_ids
        keys = None if scope is None else sorted(e.capture_key for e in scope)
        return cls(body.checkpoint_dir, None if keys is None else tuple(keys))

    @property
    def kept(self) -> frozenset[str] | None:
        """The capture keys of the scope, None for no scope."""
        return None if self.scope is None else frozenset(self.scope)


@attrs.frozen
class Recorded:
    """The reply of a completed operation, for retries of the same call."""

    body: ControlBody
    document: JsonObject

    def is_repeated_by(self, body: ControlBody) -> bool:
        """Tell whether another call asks for the same; deadlines may differ."""
        ran = self.body
        if isinstance(ran, CommitBody | RestoreBody):
            return isinstance(body, CommitBody | RestoreBody) and (
                Arguments.of(ran) == Arguments.of(body)
            )
        return True


@attrs.frozen(kw_only=True)
class Cut:
    """The one export of a checkpoint, and the writing of exactly that."""

    arguments: Arguments
    selection: Selection
    number: int
    """Of the export, then of the write that runs or ran last."""
    records: tuple[CheckpointRecord, ...] | None = None
    """None until the states have been handed over."""
    is_writing: bool = False
    manifest: Manifest | None = None
    removal: int | None = None
    """While restored sessions outside the scope are being deleted."""


@attrs.frozen(kw_only=True)
class Checkpoint:
    """The open checkpoint or restore."""

    id: str
    phase: Phase
    lease_expires_at: float = 0.0
    reopens_at: float = 0.0
    """Not before this time, after an expiry that had to wait for too long."""
    recorded: Mapping[type[ControlBody], Recorded] = MappingProxyType({})
    cut: Cut | None = None

    @property
    def expires_at(self) -> float:
        """When it is resumed without being asked for."""
        return max(self.lease_expires_at, self.reopens_at)

    @property
    def is_deleting(self) -> bool:
        """Restored sessions outside the scope are being deleted."""
        return self.cut is not None and self.cut.removal is not None


@attrs.frozen
class Committing:
    """A commit that holds the lock while it exports, writes and deletes."""

    call: int
    body: CommitBody


@attrs.frozen
class Restoring:
    """A restore that holds the lock while its directory is read."""

    call: int
    body: RestoreBody
    read: int


@attrs.frozen
class Installing:
    """A restore that holds the lock while the shell installs what was read.

    ``call`` is None if nobody waits for it any more.
    """

    call: int | None
    body: RestoreBody
    read: int
    found: Restorable[CheckpointRecord]


@attrs.frozen
class Retiring:
    """A retire that holds the lock while requests end and sessions are freed."""

    call: int
    body: RetireBody


@attrs.frozen
class Stopping:
    """A resume that holds the lock until a running write has been stopped.

    ``call`` is None if the lease ran out or the caller went away.
    """

    call: int | None
    write: int


@attrs.frozen
class Draining:
    """A resume that holds the lock until the commit's deletion is over.

    ``call`` is None if the lease ran out or the caller went away.
    """

    call: int | None
    until: float


Holder: TypeAlias = Committing | Restoring | Installing | Retiring | Stopping | Draining


@attrs.frozen(kw_only=True)
class ControlState:
    """The control plane's part of the state."""

    open: Checkpoint | None = None
    resumed: tuple[str, ...] = ()
    """The last ids that were resumed; they never change anything again."""
    holder: Holder | None = None
    """The operation that has the lock; there is one at a time."""
    queue: tuple[ControlCalled, ...] = ()
    """Calls that wait for the lock."""
    prepares: tuple[ControlCalled, ...] = ()
    """Prepares that wait, without the lock, for requests to end."""
    awaiting: tuple[str, ...] | None = None
    """While the participant waits for a restore: the last ids that one was tried with."""
    issued: int = 0
    """How many exports, writes, reads and removals have been numbered."""
    due: float = math.inf
    """When the machine has something to do even if nothing happens."""

    @property
    def is_idle(self) -> bool:
        """Nothing is open and nothing has a deadline."""
        return self.open is None and self.due == math.inf

    @property
    def awaits_requests(self) -> bool:
        """An operation may wait for the end of a request."""
        return bool(self.prepares) or isinstance(self.holder, Retiring)


@attrs.frozen
class ParticipantState(Generic[PartT]):
    """One server's participant in checkpoints."""

    settings: Settings
    part: PartT
    control: ControlState = attrs.Factory(ControlState)

    @property
    def phase(self) -> Phase:
        """The phase that replies show."""
        return Phase.IDLE if self.control.open is None else self.control.open.phase

    def with_control(self, control: ControlState) -> Self:
        """Return the participant with another control part."""
        return type(self)(self.settings, self.part, control)

    def opening(self, checkpoint: Checkpoint) -> Self:
        """Return the participant with this checkpoint, or this state of it, open."""
        return self.with_control(attrs.evolve(self.control, open=checkpoint))

    def held_by(self, holder: Holder | None) -> Self:
        """Return the participant with the lock taken, or with None released."""
        return self.with_control(attrs.evolve(self.control, holder=holder))


def participant_status(participant: ParticipantState[PartT]) -> JsonObject:
    """Describe the participant, at any time (docs/reference/control-plane.md, section 2.8)."""
    checkpoint, part = participant.control.open, participant.part
    # Only then, so that other replies keep their bytes.
    waits = checkpoint is None and participant.control.awaiting is not None
    awaited = {"awaiting_restore": True} if waits else {}
    return JsonObject(
        {
            "kind": part.kind,
            "instance": participant.settings.instance,
            "phase": participant.phase.value,
            "checkpoint_id": None if checkpoint is None else checkpoint.id,
            "lease_expires_at": (
                None if checkpoint is None else checkpoint.lease_expires_at
            ),
            "retired_rollouts": len(part.retired.marks),
            "report": part.report().to_document(),
            **part.status(),
            **awaited,
        }
    )
