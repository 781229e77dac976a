"""Statistics of every number in a run's verify responses: overall, by task, by repeat.

Names and order are those of NeMo Gym's reply to ``/aggregate_metrics``, whose tools look
for them (docs/reference/http.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias

from ipistate.kernel import is_object
from ipistate.scoring.measurements import Measurements


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Rollout: TypeAlias = Mapping[str, Any]
    Row: TypeAlias = dict[str, float]

TASK: Final = "_ng_task_index"
REPEAT: Final = "_ng_rollout_index"
LARGEST_NUMBER: Final = 1e300
"""What is larger is left out: sums of such numbers may not be finite."""
MAX_NUMBERS: Final = 256
"""Different members of one reply that statistics are made of, the first ones."""
MAX_LISTED: Final = 1_000
"""Rollouts of a task that are listed one by one."""


class MeasuredRollout(NamedTuple):
    """A verify response and the numbers in it."""

    rollout: Rollout
    numbers: Row

    @classmethod
    def of(cls, rollout: Rollout) -> Self:
        """Take the numbers of a verify response, those of its usage last.

        True and false are 1 and 0; private members and ``mask_sample`` are no
        measurements.
        """
        numbers, response = _numbers(rollout), rollout.get("response")
        usage = response.get("usage") if is_object(response) else None
        if is_object(usage):
            numbers |= _numbers(usage)
        return cls(rollout, numbers)

    @property
    def document(self) -> dict[str, object]:
        """The rollout's name and its numbers, the reward first."""
        task, repeat = self.rollout.get(TASK), self.rollout.get(REPEAT, 0)
        named = {"rollout_id": f"{task}:{repeat}", TASK: task, REPEAT: repeat}
        first = {n: number for n, number in self.numbers.items() if n == "reward"}
        return {**named, **first, **self.numbers}


def _numbers(members: Rollout) -> Row:
    return {
        name: float(number)
        for name, number in members.items()
        if isinstance(number, int | float)
        and -LARGEST_NUMBER < number < LARGEST_NUMBER
        and not name.startswith("_")
        and name != "mask_sample"
    }


def _columns(rows: Iterable[Row]) -> dict[str, Measurements]:
    columns: dict[str, list[float]] = {}
    for row in rows:
        for name, number in row.items():
            if name in columns or len(columns) < MAX_NUMBERS:
                columns.setdefault(name, []).append(number)
    return {name: Measurements.of(numbers) for name, numbers in columns.items()}


def overall(rollouts: Sequence[MeasuredRollout]) -> Row:
    """Describe each number over all rollouts: ``mean/reward``, ``max/reward`` and so on.

    There is no deviation of one measurement among several rollouts.
    """
    columns = _columns(one.numbers for one in rollouts)
    alone = len(rollouts) == 1
    spread = {n: column for n, column in columns.items() if len(column) > 1 or alone}
    return {
        **{f"mean/{name}": column.mean for name, column in columns.items()},
        **{f"max/{name}": column.values[-1] for name, column in columns.items()},
        **{f"min/{name}": column.values[0] for name, column in columns.items()},
        **{f"median/{n}": column.quantile(0.5) for n, column in columns.items()},
        **{f"std/{name}": column.deviation for name, column in spread.items()},
    }


def of_task(rollouts: Sequence[MeasuredRollout]) -> dict[str, object]:
    """Describe the rollouts of one task, and list their numbers."""
    return {
        TASK: rollouts[0].rollout.get(TASK),
        **overall(rollouts),
        "num_rollouts": len(rollouts),
        "expected_num_rollouts": len(rollouts),
        "missing_num_rollouts": 0,
        "reward_profile_completion_pct": 100.0,
        "rollout_infos": [one.document for one in rollouts[:MAX_LISTED]],
    }


def of_repeat(rollouts: Sequence[MeasuredRollout], tasks: int) -> dict[str, object]:
    """Describe one repeat of so many tasks, of which some may be missing."""
    described: dict[str, object] = {
        REPEAT: rollouts[0].rollout.get(REPEAT),
        "sample_count": len(rollouts),
        "missing_count": max(0, tasks - len(rollouts)),
    }
    columns = _columns(one.numbers for one in rollouts)
    for name, column in sorted(columns.items()):
        statistics = {
            **_middle(column),
            "sem": column.error,
            "min": column.values[0],
            "max": column.values[-1],
            "p25": column.quantile(0.25),
            "p75": column.quantile(0.75),
            **_bounds(column),
        }
        described |= {f"{kind}/{name}": value for kind, value in statistics.items()}
    return described


def across_repeats(repeats: Iterable[Sequence[MeasuredRollout]]) -> Row:
    """Describe how the means of repeats differ, each repeat being one measurement."""
    described: Row = {}
    means = [
        {name: column.mean for name, column in _columns(o.numbers for o in one).items()}
        for one in repeats
    ]
    for name, column in sorted(_columns(means).items()):
        statistics = {
            **_middle(column),
            "min": column.values[0],
            "max": column.values[-1],
            "se": column.error,
            **_bounds(column),
        }
        described |= {
            f"{kind}_across_repeats/mean/{name}": value
            for kind, value in statistics.items()
        }
    return described


def _middle(column: Measurements) -> Row:
    deviation = column.deviation
    return {"mean": column.mean, "median": column.quantile(0.5), "std": deviation}


def _bounds(column: Measurements) -> Row:
    bounds = column.interval
    return {} if bounds is None else {"ci_low_95": bounds[0], "ci_high_95": bounds[1]}


def coverage(rollouts: Sequence[Rollout]) -> dict[str, int]:
    """Count what was measured, if some rollouts are masked."""
    measured = [one for one in rollouts if not one.get("mask_sample")]
    if len(measured) == len(rollouts):
        return {}
    tasks = {str(one.get(TASK)) for one in measured}
    everything = {str(one.get(TASK)) for one in rollouts}
    return {
        "coverage/measured_rollouts": len(measured),
        "coverage/masked_rollouts": len(rollouts) - len(measured),
        "coverage/measured_tasks": len(tasks),
        "coverage/fully_masked_tasks": len(everything - tasks),
    }
