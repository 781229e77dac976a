"""What the demo found: outcomes, crashes, retired rollouts, kills, and if all is well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, Self

import attrs

from ipistate.demo.outcome import DemoOutcome, DomainLine
from ipistate.demo.plan import DemoRollout
from ipistate.protocol import EpisodeId


REPORT_VERSION: Final = 1

KilledOperation = Literal["commit", "restore"]
OPERATIONS: Final[tuple[KilledOperation, ...]] = ("commit", "restore")

FIRST: Final = "first"
"""The round's checkpoint that was completed without any kill."""
SECOND: Final = "second"
"""The checkpoint after it, whose commit may have been cut short."""


@attrs.frozen(kw_only=True)
class Crash:
    """A checkpoint, the death of the server that wrote it, and the restore after it."""

    pid: int
    status: int
    manifest: Mapping[str, Any]
    committed: tuple[str, ...]
    restored: tuple[str, ...] = ()
    sessions: int = 0
    """Sessions that the fresh server held after the restore."""


@attrs.frozen(kw_only=True)
class Retirement:
    """Rollouts whose attempt was refused and that started over as the next one."""

    rollouts: tuple[str, ...]
    sessions_freed: int
    refused: int
    """Calls of the retired attempts that the server refused."""
    admitted: int
    """Calls of the retired attempts that it did not refuse."""
    closed: int
    """Retired attempts whose close was accepted nevertheless, as every close is."""
    marks_left: int
    """Refusals that were left after ``forget``."""

    @property
    def ok(self) -> bool:
        """Every call was refused, every session freed, every mark forgotten."""
        ended = {self.sessions_freed, self.closed} == {len(self.rollouts)}
        return ended and not self.admitted and not self.marks_left


@attrs.frozen(kw_only=True)
class DemoReport:
    """The whole result of rollouts that went through one crash."""

    outcomes: tuple[DemoOutcome, ...] = ()
    crashes: tuple[Crash, ...]
    fresh_pid: int
    """The server that has played on."""
    sessions_left: int
    """Sessions that it still held when every episode had ended."""
    seconds: float = 0.0

    @property
    def lines(self) -> tuple[DomainLine, ...]:
        """The table's lines, one for each domain in the order of their names."""
        domains = sorted({outcome.domain for outcome in self.outcomes})
        return tuple(
            DomainLine.of(domain, [o for o in self.outcomes if o.domain == domain])
            for domain in domains
        )

    @property
    def total(self) -> DomainLine:
        """The table's last line."""
        return DomainLine.of("total", self.outcomes)

    @property
    def lost(self) -> tuple[str, ...]:
        """Rollouts of a checkpoint that are missing anywhere after it."""
        held = [
            {_rollout(key) for key in keys}
            for crash in self.crashes
            for keys in (crash.committed, crash.restored)
        ]
        return tuple(
            one.rollout_id
            for one in self.outcomes
            if one.cut is not None
            and not (one.continued and all(one.rollout_id in some for some in held))
        )

    @property
    def doubled(self) -> tuple[str, ...]:
        """Rollouts that a restore installed more than once."""
        counts = [Counter(map(_rollout, crash.restored)) for crash in self.crashes]
        return tuple(one for some in counts for one, times in some.items() if times > 1)

    @property
    def ok(self) -> bool:
        """Whether everything is identical and nothing was lost, doubled or left over."""
        identical = self.total.identical == self.total.rollouts
        return identical and not (self.lost or self.doubled or self.sessions_left)

    def to_document(self) -> dict[str, Any]:
        """Write the report as JSON data."""
        return {
            "report_version": REPORT_VERSION,
            "ok": self.ok,
            "total": attrs.asdict(self.total),
            "domains": [attrs.asdict(line) for line in self.lines],
            "lost": list(self.lost),
            **self._evidence(),
            "seconds": round(self.seconds, 3),
            "rollouts": [one.to_document() for one in self.outcomes],
        }

    def _evidence(self) -> dict[str, Any]:
        (crash,) = self.crashes
        evidence = {
            "killed_pid": crash.pid,
            "kill_status": crash.status,
            "fresh_pid": self.fresh_pid,
            "manifest": crash.manifest,
            "committed": crash.committed,
            "restored": crash.restored,
            "sessions_left": self.sessions_left,
        }
        return {"evidence": evidence}


@attrs.frozen(kw_only=True)
class FullReport(DemoReport):
    """The whole result of the full demo, with two crashes and retired rollouts."""

    carried: int
    """Sessions whose second export equals the first byte for byte, one attempt later."""
    retired: Retirement

    @property
    def ok(self) -> bool:
        """Whether all is well, also with every session that was carried forward."""
        held = [*(crash.sessions for crash in self.crashes), self.carried]
        carried = all(count == self.total.at_checkpoint for count in held)
        return super().ok and carried and self.retired.ok

    def _evidence(self) -> dict[str, Any]:
        return {
            "doubled": list(self.doubled),
            "checkpoints": [attrs.asdict(crash) for crash in self.crashes],
            "carried": self.carried,
            "retired": attrs.asdict(self.retired),
            "sessions_left": self.sessions_left,
        }


def _rollout(key: str) -> str:
    return EpisodeId.from_capture_key(key).rollout_id


def lost(rollouts: Iterable[DemoRollout], restored: Iterable[str]) -> tuple[str, ...]:
    """Return the rollouts whose next attempt has not been restored."""
    keys = frozenset(restored)
    attempts = [rollout.episode.next_attempt for rollout in rollouts]
    return tuple(one.rollout_id for one in attempts if one.capture_key not in keys)


def doubled(restored: Collection[str], held: int) -> tuple[str, ...]:
    """Return the keys that were restored twice, and a text for what was not restored.

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
