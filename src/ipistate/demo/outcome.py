"""One rollout beside the same one without interruption, and the table of all. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from ipistate.kernel import JsonArray, JsonObject, decode, diff
from ipistate.tools import world_after


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ipistate.demo.plan import DemoRollout
    from ipistate.demo.play import Recording
    from ipistate.demo.workplace import SessionExport
    from ipistate.kernel import Change, Environment
    from ipistate.protocol import EpisodeId

_KINDS: Final = {"add": "added", "replace": "changed", "remove": "removed"}
_SIGNS: Final = {"added": "+", "changed": "~", "removed": "-"}


@attrs.frozen(kw_only=True)
class CollectionChange:
    """The rows of one collection that differ, by id (or by index, in an array).

    A collection that is replaced or gone as a whole is one row without a name.
    """

    collection: str
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __str__(self) -> str:
        told = [
            f"{s}{row}" for kind, s in _SIGNS.items() for row in getattr(self, kind)
        ]
        return f"{self.collection} {' '.join(told)}"


def changes(seed: Environment, world: Environment) -> tuple[CollectionChange, ...]:
    """Name the rows that differ between two worlds; order counts inside rows."""
    found: dict[str, dict[str, str]] = {}
    for one in diff(seed, world).operations:
        rows = found.setdefault(str(one.path[0]), {})
        for row, kind in _rows(one):
            # What is removed and added again has moved.
            rows[row] = kind if rows.get(row, kind) == kind else "changed"
    return tuple(
        CollectionChange(
            collection=name,
            **{
                kind: tuple(row for row, one in rows.items() if one == kind)
                for kind in _SIGNS
            },
        )
        for name, rows in found.items()
    )


def _rows(one: Change) -> Iterator[tuple[str, str]]:
    if len(one.path) > 1:
        kind = _KINDS[one.op] if len(one.path) == 2 else "changed"
        yield str(one.path[1]), kind
        return
    names: Iterable[object] = ()
    if isinstance(one.value, JsonObject):
        names = one.value
    elif isinstance(one.value, JsonArray):
        names = range(len(one.value))
    named = [str(name) for name in names] if one.op == "add" else []
    for row in named or [""]:
        yield row, _KINDS[one.op]


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
    world = world_after(rollout.task.environment, rollout.calls[:cut])
    if world.to_json() != exported.to_json():
        return "the exported world is not what its calls give"
    return None
