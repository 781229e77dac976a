"""What the demo found: outcomes, crashes, retired rollouts, and whether all is well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import attrs

from ipistate.demo.outcome import DemoOutcome, DomainLine
from ipistate.protocol import EpisodeId


REPORT_VERSION: Final = 1


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
