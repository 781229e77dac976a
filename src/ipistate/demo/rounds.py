"""What rounds of kills at random moments found. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import attrs

from ipistate.demo.report import REPORT_VERSION


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ipistate.demo.plan import DemoRollout

KilledOperation = Literal["commit", "restore"]
OPERATIONS: Final[tuple[KilledOperation, ...]] = ("commit", "restore")

FIRST: Final = "first"
"""The round's checkpoint that was completed without any kill."""
SECOND: Final = "second"
"""The checkpoint after it, whose commit may have been cut short."""


def lost(rollouts: Iterable[DemoRollout], restored: Iterable[str]) -> tuple[str, ...]:
    """Return the rollouts whose next attempt has not been restored."""
    keys = frozenset(restored)
    attempts = [rollout.episode.next_attempt for rollout in rollouts]
    return tuple(one.rollout_id for one in attempts if one.capture_key not in keys)


def doubled(restored: Collection[str], held: int) -> tuple[str, ...]:
    """Return the keys that were restored twice, and a text for what nobody restored.

    Args:
        restored: The keys of the restore's reply.
        held: How many sessions the server then had.
    """
    twice = tuple(key for key, times in Counter(restored).items() if times > 1)
    return (*twice, *["a session of no episode"] * (held - len(restored)))


@attrs.frozen(kw_only=True)
class KillRound:
    """One kill during an operation, and what a fresh process made of it."""

    number: int
    operation: KilledOperation
    moment: float
    """Seconds from the start of the operation to the kill."""
    answered: bool
    """Whether the operation had been answered before the kill."""
    newest: str
    """The newest complete checkpoint, which the fresh process restored."""
    rollouts: int
    lost: tuple[str, ...]
    doubled: tuple[str, ...]
    different: tuple[str, ...]
    """Rollouts of which something differs, each with the first difference."""
    sessions_left: int

    @property
    def broken(self) -> bool:
        """A commit was answered, and its checkpoint is not there."""
        return self.operation == "commit" and self.answered and self.newest != SECOND

    @property
    def ok(self) -> bool:
        """Nothing is lost, doubled, different or left over."""
        found = (self.lost, self.doubled, self.different, self.sessions_left)
        return not any(found) and not self.broken


@attrs.frozen(kw_only=True)
class RoundsLine:
    """Rounds with the same end of the operation that was killed."""

    operation: KilledOperation
    answered: bool
    newest: str
    rounds: int
    earliest: float
    latest: float
    rollouts: int
    lost: int
    doubled: int
    different: int

    @classmethod
    def of(cls, rounds: Sequence[KillRound]) -> Self:
        """Count rounds that ended alike."""
        moments = [one.moment for one in rounds]
        return cls(
            operation=rounds[0].operation,
            answered=rounds[0].answered,
            newest=rounds[0].newest,
            rounds=len(rounds),
            earliest=min(moments),
            latest=max(moments),
            rollouts=sum(one.rollouts for one in rounds),
            lost=sum(len(one.lost) for one in rounds),
            doubled=sum(len(one.doubled) for one in rounds),
            different=sum(len(one.different) for one in rounds),
        )


@attrs.frozen(kw_only=True)
class RoundsReport:
    """All rounds."""

    rounds: tuple[KillRound, ...]
    seed: int
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether every round is."""
        return all(one.ok for one in self.rounds)

    @property
    def lines(self) -> tuple[RoundsLine, ...]:
        """The table: rounds by operation, answer, and checkpoint that was restored."""
        groups: dict[tuple[KilledOperation, bool, str], list[KillRound]] = {}
        for one in self.rounds:
            key = one.operation, one.answered, one.newest
            groups.setdefault(key, []).append(one)
        return tuple(RoundsLine.of(groups[key]) for key in sorted(groups))

    def to_document(self) -> dict[str, Any]:
        """Write the report as JSON data."""
        return {
            "report_version": REPORT_VERSION,
            "ok": self.ok,
            "seed": self.seed,
            "lines": [attrs.asdict(line) for line in self.lines],
            "rounds": [{**attrs.asdict(one), "ok": one.ok} for one in self.rounds],
            "seconds": round(self.seconds, 3),
        }
