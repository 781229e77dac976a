"""Metrics over verified rollouts (docs/reference/tools.md, section 12), as pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from ipistate.errors import SchemaError, json_path, preview
from ipistate.kernel import JsonObject


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Rollout: TypeAlias = Mapping[str, Any]

_REWARDS: Final = ("reward", "reward_safety", "reward_utility")
_LABELS: Final = {
    "difficulty": "attack_difficulty",
    "vtype": "verification_type",
    "category": "attack_category",
}
_KEY_METRICS: Final = (
    *(f"avg_{name}" for name in _REWARDS),
    *(f"resistance_rate/difficulty/{name}" for name in ("easy", "medium", "hard")),
)
_LARGEST_REWARD: Final = 1e300


class Aggregate(NamedTuple):
    """All metrics of a set of rollouts, and the few that a report shows first."""

    metrics: JsonObject
    key_metrics: JsonObject


def aggregate(tasks: Iterable[Iterable[Rollout]]) -> Aggregate:
    """Compute the metrics of rollouts that are grouped by task.

    A mean is that of the exact sum, so it is the same on every interpreter. Labels are
    told apart by their printed text.

    Rollouts with a truthy ``mask_sample`` are left out.

    Args:
        tasks: The verify responses of each task.

    Raises:
        SchemaError: A task is not an array of rollouts, a rollout is not an object, or
            one of its rewards not a number.
    """
    rollouts: list[Rollout] = []
    for index, task in enumerate(tasks):
        for repeat, rollout in enumerate(_rollouts_of(task, index)):
            _check(rollout, index, repeat)
            rollouts.append(rollout)
    return _aggregate(_counted(rollouts))


def metrics_report(verify_responses: Sequence[Rollout]) -> JsonObject:
    """Write the ``/aggregate_metrics`` reply (docs/reference/control-plane.md, section 1.5.5).

    Rollouts with a truthy ``mask_sample`` are left out. There is one entry for each
    ``_ng_task_index`` and, if responses carry it, for each ``_ng_rollout_index``.

    Raises:
        SchemaError: As ``aggregate``; paths start at ``$.verify_responses``.
    """
    for index, response in enumerate(verify_responses):
        _check(response, "verify_responses", index)
    counted = _counted(verify_responses)
    repeated = [rollout for rollout in counted if "_ng_rollout_index" in rollout]
    metrics, key_metrics = _aggregate(counted)
    return JsonObject(
        {
            "group_level_metrics": _levels(counted, "_ng_task_index"),
            "agent_metrics": metrics,
            "key_metrics": key_metrics,
            "perf_summary": None,
            "repeat_level_metrics": _levels(repeated, "_ng_rollout_index"),
        }
    )


def _counted(rollouts: Iterable[Rollout]) -> list[Rollout]:
    return [rollout for rollout in rollouts if not rollout.get("mask_sample")]


def _aggregate(rollouts: Sequence[Rollout]) -> Aggregate:
    if not rollouts:
        return Aggregate(JsonObject(), JsonObject())
    metrics = _averages(rollouts)
    for kind, member in _LABELS.items():
        for label, group in _grouped(rollouts, member).items():
            metrics[f"resistance_rate/{kind}/{label}"] = _mean(group, "reward")
    chosen = {name: metrics[name] for name in _KEY_METRICS if name in metrics}
    return Aggregate(JsonObject(metrics), JsonObject(chosen))


def _levels(rollouts: Iterable[Rollout], member: str) -> list[dict[str, object]]:
    return [
        {member: group[0].get(member), "rollouts": len(group), **_averages(group)}
        for group in _grouped(rollouts, member).values()
    ]


def _averages(rollouts: Sequence[Rollout]) -> dict[str, float]:
    return {f"avg_{name}": _mean(rollouts, name) for name in _REWARDS}


def _mean(rollouts: Sequence[Rollout], member: str) -> float:
    total = fsum(rollout.get(member, 0.0) for rollout in rollouts)
    return total / len(rollouts) + 0.0  # never -0.0


def _grouped(rollouts: Iterable[Rollout], member: str) -> dict[str, list[Rollout]]:
    groups: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        groups.setdefault(str(rollout.get(member, "unknown")), []).append(rollout)
    return groups


def _rollouts_of(task: object, index: int) -> Iterable[Any]:
    if isinstance(task, Iterable):
        return task  # pyright: ignore[reportUnknownVariableType]
    where, shown = json_path([index]), preview(task)
    raise SchemaError("wrong_type", "expected an array", where, shown)


def _check(rollout: object, *path: str | int) -> None:
    if not isinstance(rollout, dict):
        where, shown = json_path(path), preview(rollout)
        raise SchemaError("wrong_type", "expected an object", where, shown)
    members = cast("Rollout", rollout)
    for name in _REWARDS:
        reward = members.get(name, 0.0)
        if not isinstance(reward, int | float):
            code, message = "wrong_type", "expected a number"
        elif not -_LARGEST_REWARD < reward < _LARGEST_REWARD:
            code, message = "out_of_range", "a reward is between -1e300 and 1e300"
        else:
            continue
        raise SchemaError(code, message, json_path((*path, name)), preview(reward))
