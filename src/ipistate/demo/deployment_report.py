"""What a demo of a whole deployment has found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from ipistate.demo.deployed import DeployedResult


DEPLOYMENT_REPORT_VERSION: Final = 1


@attrs.frozen(kw_only=True)
class DeploymentOutcome:
    """One rollout, beside the same one in a deployment that nobody has killed."""

    name: str
    at_checkpoint: bool
    results: int
    """How often it came to an end; once is right."""
    is_identical: bool
    """Its result is the same, byte for byte."""
    begins_as_recorded: bool = True
    """Its trajectory begins with the one in the checkpoint."""
    reward: float | None = None


def outcome_of(
    name: str,
    found: list[DeployedResult],
    expected: DeployedResult | None,
    recorded: tuple[Any, ...] | None,
) -> DeploymentOutcome:
    """Compare what a rollout has come to with what it should come to.

    Args:
        name: Of the rollout.
        found: Its results.
        expected: What it comes to without interruption.
        recorded: The items that the checkpoint has of it; None if it is not there.
    """
    first = found[0] if found else None
    begun = recorded or ()
    return DeploymentOutcome(
        name=name,
        at_checkpoint=recorded is not None,
        results=len(found),
        is_identical=first is not None and expected is not None and first == expected,
        begins_as_recorded=first is not None and first.output[: len(begun)] == begun,
        reward=None if first is None else first.reward,
    )


@attrs.frozen(kw_only=True)
class DeploymentReport:
    """A deployment that was killed twice, beside one that was not."""

    topology: str
    outcomes: tuple[DeploymentOutcome, ...]
    in_flight: int
    """Episodes in flight when the first checkpoint was prepared."""
    restarts: int
    """Those of them that no record keeps."""
    committed: tuple[int, int]
    """Episodes in the first and in the second checkpoint."""
    restored: tuple[int, int]
    calls: int
    """Of the model, in the deployment that was killed."""
    calls_uninterrupted: int
    undelivered: int
    """Calls that had no answer when the first checkpoint was prepared: made again."""
    left_over: Mapping[str, int]
    """What participants still held at the end."""
    milliseconds: Mapping[str, float]
    """What each operation on all participants took."""
    seconds: float

    @property
    def lost(self) -> tuple[str, ...]:
        """Rollouts without a result."""
        return tuple(one.name for one in self.outcomes if not one.results)

    @property
    def doubled(self) -> tuple[str, ...]:
        """Rollouts with more than one."""
        return tuple(one.name for one in self.outcomes if one.results > 1)

    @property
    def different(self) -> tuple[str, ...]:
        """Rollouts whose result is another one, or does not begin as recorded."""
        return tuple(
            one.name
            for one in self.outcomes
            if not (one.is_identical and one.begins_as_recorded)
        )

    @property
    def ok(self) -> bool:
        """Nothing lost, doubled, different or left over, and no call made in vain."""
        wrong = (*self.lost, *self.doubled, *self.different, *self.left_over)
        needed = self.calls_uninterrupted + self.undelivered
        everyone = (self.in_flight, self.in_flight)
        return (
            not wrong
            and not self.restarts
            and everyone == self.committed == self.restored
            and self.calls == needed
        )

    def to_document(self) -> dict[str, Any]:
        """Write the report as JSON data."""
        return {
            "report_version": DEPLOYMENT_REPORT_VERSION,
            "ok": self.ok,
            "lost": [*self.lost],
            "doubled": [*self.doubled],
            "different": [*self.different],
            **attrs.asdict(self),
        }


@attrs.frozen(kw_only=True)
class DeploymentRound:
    """One kill."""

    number: int
    operation: str
    """What was under way."""
    killed: tuple[str, ...]
    """The servers that died, of all."""
    milliseconds: float
    """When, from the beginning of the operation."""
    had_ended: bool
    """The operation was over by then."""
    in_flight: int
    restored: int
    """Episodes that this life has gone on with."""


@attrs.frozen(kw_only=True)
class DeploymentRoundsReport:
    """A deployment in which servers died again and again."""

    topology: str
    seed: int
    rounds: tuple[DeploymentRound, ...]
    outcomes: tuple[DeploymentOutcome, ...]
    calls: int
    left_over: Mapping[str, int]
    seconds: float

    @property
    def ok(self) -> bool:
        """Every rollout has one result, and the right one; nothing is left over."""
        right = all(one.results == 1 and one.is_identical for one in self.outcomes)
        return right and not self.left_over

    def to_document(self) -> dict[str, Any]:
        """Write the report as JSON data."""
        return {
            "report_version": DEPLOYMENT_REPORT_VERSION,
            "ok": self.ok,
            "rollouts": len(self.outcomes),
            **attrs.asdict(self),
        }
