"""What the full demo found: two crashes, a checkpoint in between, retired rollouts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import attrs

from ipistate.demo.report import REPORT_VERSION, Outcomes
from ipistate.protocol import EpisodeId


@attrs.frozen(kw_only=True)
class DemoStage:
    """A checkpoint, the death of the server that wrote it, and the restore after it."""

    pid: int
    status: int
    manifest: Mapping[str, Any]
    committed: tuple[str, ...]
    restored: tuple[str, ...]
    sessions: int
    """Sessions that the fresh server held after the restore."""

    @property
    def doubled(self) -> tuple[str, ...]:
        """Rollouts of which there was more than one session."""
        keys = Counter(map(_rollout, self.restored))
        return tuple(rollout for rollout, count in keys.items() if count > 1)


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
class FullReport(Outcomes):
    """The whole result of the full demo."""

    first: DemoStage
    second: DemoStage
    carried: int
    """Sessions whose second export equals the first byte for byte, one attempt later."""
    retired: Retirement
    sessions_left: int
    seconds: float

    @property
    def lost(self) -> tuple[str, ...]:
        """Rollouts of a checkpoint that are missing anywhere after it."""
        held = [
            {_rollout(key) for key in keys}
            for stage in (self.first, self.second)
            for keys in (stage.committed, stage.restored)
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
        return (*self.first.doubled, *self.second.doubled)

    @property
    def ok(self) -> bool:
        """Whether all is identical, and nothing lost, doubled, or left over."""
        count = self.total.at_checkpoint
        whole = (self.first.sessions, self.second.sessions, self.carried)
        return (
            self.total.identical == self.total.rollouts
            and not self.lost
            and not self.doubled
            and whole == (count, count, count)
            and self.retired.ok
            and not self.sessions_left
        )

    def to_document(self) -> dict[str, Any]:
        """Write the report as JSON data."""
        return {
            "report_version": REPORT_VERSION,
            "ok": self.ok,
            "total": attrs.asdict(self.total),
            "domains": [attrs.asdict(line) for line in self.lines],
            "lost": list(self.lost),
            "doubled": list(self.doubled),
            "checkpoints": [attrs.asdict(self.first), attrs.asdict(self.second)],
            "carried": self.carried,
            "retired": attrs.asdict(self.retired),
            "sessions_left": self.sessions_left,
            "seconds": round(self.seconds, 3),
            "rollouts": [one.to_document() for one in self.outcomes],
        }


def _rollout(key: str) -> str:
    return EpisodeId.from_capture_key(key).rollout_id
