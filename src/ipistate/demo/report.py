"""What the demo found: the outcome of each rollout, and whether anything was lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from ipistate.demo.changes import CollectionChange, changes
from ipistate.kernel import decode
from ipistate.tools import replay


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ipistate.demo.plan import DemoRollout
    from ipistate.demo.play import Recording
    from ipistate.demo.workplace import SessionExport
    from ipistate.kernel import Environment
    from ipistate.protocol import EpisodeId

REPORT_VERSION: Final = 1


@attrs.frozen(kw_only=True)
class DemoOutcome:
    """One rollout of the interrupted run beside the same one without interruption."""

    rollout_id: str
    row: str
    domain: str
    agent: str
    calls: int
    cut: int | None
    """Calls made before the crash; None if the rollout ended before the checkpoint."""
    continued: bool
    reward: float | None
    injection_followed: bool | None
    changes: tuple[CollectionChange, ...]
    """What the exported world had changed against its seed."""
    difference: str | None
    """The first thing that differs or was lost; None if all is identical."""

    @property
    def identical(self) -> bool:
        """Whether every reply equals the one of the uninterrupted run."""
        return self.difference is None

    def to_document(self) -> dict[str, Any]:
        """Write the outcome as JSON data."""
        return {**attrs.asdict(self), "identical": self.identical}


@attrs.frozen(kw_only=True)
class Evidence:
    """What the control plane and the processes said."""

    killed_pid: int
    kill_status: int
    fresh_pid: int
    manifest: Mapping[str, Any]
    committed: tuple[str, ...]
    restored: tuple[str, ...]
    sessions_left: int
    """Sessions that the fresh server still held when every episode had ended."""


@attrs.frozen(kw_only=True)
class DomainLine:
    """One line of the table: the rollouts of a domain, or all of them."""

    domain: str
    rollouts: int
    at_checkpoint: int
    continued: int
    reward: float
    injection_followed: int
    identical: int

    @classmethod
    def of(cls, domain: str, outcomes: Sequence[DemoOutcome]) -> DomainLine:
        """Count outcomes; the reward is their mean, a lost episode's is 0."""
        rewards = [outcome.reward or 0.0 for outcome in outcomes]
        return cls(
            domain=domain,
            rollouts=len(outcomes),
            at_checkpoint=sum(outcome.cut is not None for outcome in outcomes),
            continued=sum(outcome.continued for outcome in outcomes),
            reward=sum(rewards) / len(rewards),
            injection_followed=sum(bool(o.injection_followed) for o in outcomes),
            identical=sum(outcome.identical for outcome in outcomes),
        )


@attrs.frozen(kw_only=True)
class Outcomes:
    """Every rollout's outcome, and the table's lines that they give."""

    outcomes: tuple[DemoOutcome, ...]

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


@attrs.frozen(kw_only=True)
class DemoReport(Outcomes):
    """The whole result."""

    evidence: Evidence
    seconds: float

    @property
    def lost(self) -> tuple[str, ...]:
        """Rollouts of the checkpoint that were not committed, restored or continued."""
        kept = {key.removesuffix("-a1") for key in self.evidence.restored}
        return tuple(
            outcome.rollout_id
            for outcome in self.outcomes
            if outcome.cut is not None
            and not (
                outcome.continued
                and outcome.rollout_id in kept
                and outcome.rollout_id in self.evidence.committed
            )
        )

    @property
    def ok(self) -> bool:
        """Whether everything is identical and nothing was lost or left over."""
        identical = all(outcome.identical for outcome in self.outcomes)
        return identical and not self.lost and not self.evidence.sessions_left

    def to_document(self) -> dict[str, Any]:
        """Write the report as JSON data."""
        return {
            "report_version": REPORT_VERSION,
            "ok": self.ok,
            "total": attrs.asdict(self.total),
            "domains": [attrs.asdict(line) for line in self.lines],
            "lost": list(self.lost),
            "evidence": attrs.asdict(self.evidence),
            "seconds": round(self.seconds, 3),
            "rollouts": [outcome.to_document() for outcome in self.outcomes],
        }


def compare_all(
    rollouts: Iterable[DemoRollout],
    interrupted: Mapping[str, Recording],
    beside: Mapping[str, Recording],
    exported: Mapping[EpisodeId, SessionExport],
) -> tuple[DemoOutcome, ...]:
    """Compare every rollout with the same one without interruption."""

    def one(rollout: DemoRollout) -> DemoOutcome:
        name, export = rollout.episode.rollout_id, exported.get(rollout.episode)
        world = None if export is None else export.world
        return compare(rollout, interrupted[name], beside[name], world)

    return tuple(map(one, rollouts))


def compare(
    rollout: DemoRollout,
    interrupted: Recording,
    beside: Recording,
    exported: Environment | None,
) -> DemoOutcome:
    """Put a rollout's two recordings beside each other, byte for byte."""
    verdict: Any = decode(interrupted.verdict) if interrupted.verdict else {}
    cut, seed = rollout.cut, rollout.task.environment
    difference = _difference(interrupted, beside)
    if cut is not None:
        difference = difference or _world_difference(rollout, cut, exported)
    return DemoOutcome(
        rollout_id=rollout.episode.rollout_id,
        row=rollout.row,
        domain=rollout.domain,
        agent=rollout.agent,
        calls=len(rollout.calls),
        cut=cut,
        continued=cut is not None and interrupted.verdict is not None,
        reward=cast("float | None", verdict.get("reward")),
        injection_followed=cast("bool | None", verdict.get("injection_followed")),
        changes=() if exported is None else changes(seed, exported),
        difference=difference,
    )


def _difference(interrupted: Recording, beside: Recording) -> str | None:
    for run, recording in {"interrupted": interrupted, "beside": beside}.items():
        if recording.fault is not None:
            return f"{run}: {recording.fault}"
    pairs: Iterable[tuple[bytes, bytes]] = zip(
        interrupted.replies, beside.replies, strict=False
    )
    for number, (left, right) in enumerate(pairs):
        if left != right:
            return f"reply {number} differs"
    if len(interrupted.replies) != len(beside.replies):
        return "a reply is missing"
    if interrupted.verdict != beside.verdict:
        return "the verify reply differs"
    return None


def _world_difference(
    rollout: DemoRollout, cut: int, exported: Environment | None
) -> str | None:
    if exported is None:
        return "the checkpoint has no world of it"
    world = rollout.task.environment
    for transition in replay(world, rollout.calls[:cut]):
        world = transition.environment
    if world.to_json() != exported.to_json():
        return "the exported world is not what its calls give"
    return None
