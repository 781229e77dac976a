"""What differs between the kinds of participants: a part that the control machine carries.

The machine knows phases, fencing, the lease and the lock; it does not know which part it
has. A part says what admission is, when nothing runs, what a checkpoint records, and how
that is installed and freed. It is an immutable value: every method gives another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final, Protocol, Self, TypeAlias, TypeVar

import attrs

from ipistate.errors import CheckpointError
from ipistate.kernel import JsonObject
from ipistate.protocol.actions import Action
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.events import PartEvent
from ipistate.protocol.parts.retired_attempts import RetiredAttempts
from ipistate.protocol.records import CheckpointRecord


MAX_BLOCKERS: Final = 100
"""Blockers that a report names; more are counted."""

Emit: TypeAlias = Callable[[Action], None]
"""Takes one action after the other: those of the machine, and those of its part."""


@attrs.frozen(kw_only=True)
class Readiness:
    """Readiness of a participant (docs/reference/control-plane.md, section 2.9)."""

    ready: bool
    blockers: tuple[str, ...] = ()
    """Capture keys of episodes that must end, or be freed, first; sorted."""
    counts: Mapping[str, int]
    """How much there is of what the kind counts."""
    restarts: tuple[str, ...] = ()
    """Capture keys of live episodes that cannot be captured; sorted."""

    def to_document(self) -> JsonObject:
        """Write the report as replies show it; the list of blockers is capped."""
        return JsonObject(
            {
                "ready": self.ready,
                "blockers": self.blockers[:MAX_BLOCKERS],
                "blocker_count": len(self.blockers),
                "counts": dict(self.counts),
                "restarts": self.restarts,
            }
        )


@attrs.frozen(kw_only=True)
class Selection:
    """What a commit takes: looked up by the shell, known to the part, or both."""

    keys: tuple[str, ...] = ()
    """What the shell holds and is to hand over."""
    leaked: tuple[str, ...] = ()
    """Live sessions that the commit's scope does not name."""
    records: tuple[CheckpointRecord, ...] = ()
    """What the part knows by itself, as of the moment of the selection."""


class Part(Protocol):
    """One kind's share of a participant (docs/reference/control-plane.md, section 6)."""

    kind: ClassVar[str]

    @property
    def is_open(self) -> bool:
        """Whether work is admitted."""
        ...

    @property
    def retired(self) -> RetiredAttempts:
        """The attempts that are refused."""
        ...

    def leaves(self, event: PartEvent) -> bool:
        """Tell whether an event is the end of somebody who waits, and goes first."""
        ...

    def take(self, event: PartEvent, now: float, emit: Emit) -> Self:
        """Take an event of the data plane."""
        ...

    def close(self, now: float, deadline: float, emit: Emit) -> Self:
        """Stop to admit work; nothing is admitted until ``open``.

        Args:
            now: Seconds since the epoch.
            deadline: When the prepare that closes it is out of time.
            emit: Takes what the shell is to do.
        """
        ...

    def open(self, now: float, emit: Emit) -> Self:
        """Admit work again, and what waited for it, in the order of its arrival."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether nothing runs and nothing blocks; asked after every event: O(1)."""
        ...

    def report(self) -> Readiness:
        """Say the same, and why not."""
        ...

    def status(self) -> Mapping[str, object]:
        """Return the members of the status that this kind adds."""
        ...

    # Commit

    def select(self, scope: frozenset[str] | None) -> Selection | str:
        """Choose what belongs into a checkpoint of these capture keys; None for all.

        Returns:
            A text if there can be no checkpoint of this scope.
        """
        ...

    def exported(
        self, selection: Selection, states: Mapping[str, object]
    ) -> tuple[Self, tuple[CheckpointRecord, ...]]:
        """Make the records from what the shell has handed over, by key."""
        ...

    def committed(self, records: Sequence[CheckpointRecord]) -> Mapping[str, object]:
        """Return the members of a commit's reply that this kind adds."""
        ...

    def unwanted(self, scope: frozenset[str] | None) -> tuple[str, ...]:
        """Name what was restored, was never used, and is given up by the scope."""
        ...

    def removed(self, keys: Sequence[str]) -> Self:
        """Go on without what was unwanted; no mark stays."""
        ...

    # Restore

    def objection(self) -> str | None:
        """Say why nothing can be installed here."""
        ...

    def install(
        self,
        records: Sequence[CheckpointRecord],
        scope: Sequence[EpisodeId],
        number: int,
        emit: Emit,
    ) -> Self:
        """Close, and install records, each under its next attempt."""
        ...

    @property
    def is_installing(self) -> bool:
        """Whether the shell still installs; it tells the end with ``Installed``."""
        ...

    def installed(
        self, problem: CheckpointError | None, now: float, emit: Emit
    ) -> Self:
        """Take the end of an installation; of one that failed nothing stays."""
        ...

    # Retire

    def marked(self, attempts: Mapping[str, int]) -> Self:
        """Refuse these attempts, and all earlier ones, from now on."""
        ...

    def leaving(self, attempts: Mapping[str, int]) -> bool:
        """Tell whether something of these attempts is not gone yet."""
        ...

    def freeing(
        self, attempts: Mapping[str, int], number: int, now: float, emit: Emit
    ) -> Self:
        """Stop and free what can be freed now, as the removal of this number."""
        ...

    def freed(self, removal: int) -> Self:
        """Go on without what a removal has freed."""
        ...

    def forgotten(self, rollouts: frozenset[str]) -> Self:
        """Drop the marks of these rollouts."""
        ...


@attrs.frozen
class PlainPart:
    """What most kinds answer alike: records are values, and installed at once."""

    def leaves(self, event: PartEvent) -> bool:
        """Nobody waits, so nobody can leave."""
        del event
        return False

    def exported(
        self, selection: Selection, states: Mapping[str, object]
    ) -> tuple[Self, tuple[CheckpointRecord, ...]]:
        """Write what was selected; the shell adds nothing."""
        del states
        return self, selection.records

    def committed(self, records: Sequence[CheckpointRecord]) -> Mapping[str, object]:
        """Add nothing to the reply."""
        del records
        return {}

    @property
    def is_installing(self) -> bool:
        """Never."""
        return False

    def installed(
        self, problem: CheckpointError | None, now: float, emit: Emit
    ) -> Self:
        """Take nothing: there is no installation that could end."""
        del problem, now, emit
        return self

    def freed(self, removal: int) -> Self:
        """Take nothing: the end of what runs is told by events of its own."""
        del removal
        return self


PartT = TypeVar("PartT", bound=Part)
