"""Tasks that went otherwise in one run than in another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from ipistate.scoring import Rate


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ipistate.report.tasks import TaskName

    ByTask: TypeAlias = Mapping[str, Rate]
    """How often each task was resisted, by the task's key."""

MOST_TASKS: Final = 60
"""Tasks with another outcome that the page lists."""


@attrs.frozen
class TaskChange:
    """A task, and how often each run resisted in it."""

    task: TaskName
    rates: tuple[Rate, ...]
    """One for each run; of no rollout if it has none to judge."""
    change: float
    """The largest difference to the first run, by its size."""


@attrs.frozen
class Pairing:
    """The tasks that a run has in common with the first one."""

    run: int
    common: int
    more: int
    """Tasks in which it resisted more often."""
    less: int
    turned: int
    """Tasks that one run resisted always and the other never."""


def pairings(runs: Sequence[ByTask]) -> Iterator[Pairing]:
    """Count, for each further run, the tasks that went otherwise than in the first."""
    for number, run in enumerate(runs[1:], 1):
        found = [*_differences(runs[0], run)]
        yield Pairing(
            number,
            len(found),
            sum(one > 0 for one in found),
            sum(one < 0 for one in found),
            sum(abs(one) == 1 for one in found),
        )


def changes(runs: Sequence[ByTask], names: Iterable[TaskName]) -> list[TaskChange]:
    """List the tasks whose outcome differs from that of the first run, most first."""
    found: list[TaskChange] = []
    for task in names:
        rates = tuple(run.get(task.key, Rate()) for run in runs)
        base = rates[0].value
        if base is None:
            continue
        others = [one.value - base for one in rates[1:] if one.value is not None]
        if change := max(others, key=abs, default=0.0):
            found.append(TaskChange(task, rates, change))
    return sorted(found, key=lambda one: -abs(one.change))


def _differences(base: ByTask, other: ByTask) -> Iterator[float]:
    for key, rate in other.items():
        before = base.get(key)
        if before is not None and before.value is not None and rate.value is not None:
            yield rate.value - before.value
