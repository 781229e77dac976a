"""Metrics over verified rollouts (docs/reference/tools.md, section 12), as pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import fsum, inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from ipistate.errors import SchemaError, json_path, preview
from ipistate.kernel import JsonObject
from ipistate.scoring.run_statistics import (
    REPEAT,
    TASK,
    MeasuredRollout,
    across_repeats,
    coverage,
    of_repeat,
    of_task,
    overall,
)


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Rollout: TypeAlias = Mapping[str, Any]

T = TypeVar("T")

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
    ``_ng_task_index`` and, if there are several ``_ng_rollout_index``, for each of them,
    in the order of these numbers.

    Raises:
        SchemaError: As ``aggregate``; paths start at ``$.verify_responses``.
    """
    for index, response in enumerate(verify_responses):
        _check(response, "verify_responses", index)
    counted = _counted(verify_responses)
    measured = sorted(map(MeasuredRollout.of, counted), key=_position)
    tasks, repeats = _tasks(measured), _repeats(measured)
    metrics, key_metrics = _aggregate([one.rollout for one in measured])
    gaps = coverage(verify_responses)
    return JsonObject(
        {
            "group_level_metrics": [_with_averages(of_task(o), o) for o in tasks],
            "agent_metrics": {
                **overall(measured),
                **(across_repeats(repeats) if len(repeats) > 1 else {}),
                **gaps,
                **metrics,
                **({"num_repeats": max(1, len(repeats))} if counted else {}),
            },
            "key_metrics": {**key_metrics, **gaps},
            "perf_summary": None,
            "repeat_level_metrics": [
                _with_averages(of_repeat(one, len(tasks)), one)
                for one in repeats
                if len(repeats) > 1
            ],
        }
    )


def _counted(rollouts: Iterable[Rollout]) -> list[Rollout]:
    return [rollout for rollout in rollouts if not rollout.get("mask_sample")]


def _aggregate(rollouts: Sequence[Rollout]) -> Aggregate:
    if not rollouts:
        return Aggregate(JsonObject(), JsonObject())
    metrics = _averages(rollouts)
    for kind, member in _LABELS.items():
        for label, group in _labelled(rollouts, member).items():
            metrics[f"resistance_rate/{kind}/{label}"] = _mean(group, "reward")
    chosen = {name: metrics[name] for name in _KEY_METRICS if name in metrics}
    return Aggregate(JsonObject(metrics), JsonObject(chosen))


def _labelled(rollouts: Iterable[Rollout], member: str) -> dict[str, list[Rollout]]:
    return _grouped(rollouts, lambda rollout: rollout.get(member, "unknown"))


def _position(one: MeasuredRollout) -> tuple[float, float]:
    # By their numbers; what has none stays where it is, after the others.
    task, repeat = one.rollout.get(TASK), one.rollout.get(REPEAT)
    return (
        task if isinstance(task, int) else inf,
        repeat if isinstance(repeat, int) else inf,
    )


def _tasks(measured: Iterable[MeasuredRollout]) -> list[list[MeasuredRollout]]:
    return [*_grouped(measured, lambda one: one.rollout.get(TASK)).values()]


def _repeats(measured: Iterable[MeasuredRollout]) -> list[list[MeasuredRollout]]:
    repeated = (one for one in measured if REPEAT in one.rollout)
    return [*_grouped(repeated, lambda one: one.rollout[REPEAT]).values()]


def _with_averages(
    described: dict[str, object], group: Iterable[MeasuredRollout]
) -> dict[str, object]:
    rollouts = [one.rollout for one in group]
    return {**described, "rollouts": len(rollouts), **_averages(rollouts)}


def _averages(rollouts: Sequence[Rollout]) -> dict[str, float]:
    return {f"avg_{name}": _mean(rollouts, name) for name in _REWARDS}


def _mean(rollouts: Sequence[Rollout], member: str) -> float:
    total = fsum(rollout.get(member, 0.0) for rollout in rollouts)
    return total / len(rollouts) + 0.0  # never -0.0


def _grouped(items: Iterable[T], named: Callable[[T], object]) -> dict[str, list[T]]:
    groups: defaultdict[str, list[T]] = defaultdict(list)
    for item in items:
        groups[str(named(item))].append(item)
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
