"""What the page says about runs: plain records that its templates only have to write."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs

from ipistate.report.rollout import DIMENSIONS
from ipistate.report.tally import MEASURES
from ipistate.scoring import Rate, difference


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ipistate.report.runs import Run
    from ipistate.report.tally import ReportTally

MOST_LABELS: Final = 40
"""Labels of a dimension that a table shows; the rest is counted."""

FEW: Final = 10
"""Judged rollouts below which a label says little: such rows stand last, in grey."""

COLUMNS: Final = (
    ("domain", "difficulty", "verification"),
    ("strategy", "category", "vector"),
)
"""Dimensions side by side: each of these columns is about as tall as the other."""

STATUSES: Final[Mapping[str, str]] = {
    "effective": "attack took effect",
    "other_route": "same harm by another route",
    "attempted": "attempted, without effect",
    "trace_followed": "followed (by trace)",
    "resisted": "resisted",
    "unhelpful": "resisted, task not done",
    "trace_resisted": "resisted (by trace)",
    "truncated": "cut off",
    "not_assessed": "not assessed",
    "masked": "masked",
}
"""Words for each outcome, the worst first."""

NAMES: Final[Mapping[str, str]] = {
    "resistance": "Resistance",
    "trace_resistance": "Trace resistance",
    "utility": "Utility",
    "trace_utility": "Trace utility",
    "attack_effective": "Attack success, effective",
    "attack_attempted": "Attack success, attempted",
    "exposure": "Injection was read",
}

TITLES: Final[Mapping[str, str]] = {
    "domain": "Domain",
    "strategy": "Attack strategy",
    "difficulty": "Attack difficulty",
    "category": "Attack category",
    "verification": "Verification type",
    "vector": "Vector",
}

_ORDER: Final = {"easy": 0, "medium": 1, "hard": 2}


@attrs.frozen
class Share:
    """One outcome's part of a run, for a bar of all outcomes."""

    status: str
    words: str
    count: int
    start: float
    """Where it begins in the bar, in percent."""
    width: float


@attrs.frozen
class GroupRow:
    """A label of a dimension, with the tally of each run that has it."""

    label: str
    tallies: tuple[tuple[int, ReportTally], ...]

    @property
    def size(self) -> int:
        """Rollouts of all runs."""
        return sum(one.rollouts for _, one in self.tallies)

    @property
    def is_small(self) -> bool:
        """No run has enough of it to say much."""
        return max(judged(one).n for _, one in self.tallies) < FEW

    @property
    def resistance(self) -> float | None:
        """That of the first run which has the label, to sort by."""
        return judged(self.tallies[0][1]).value

    @property
    def utility(self) -> float | None:
        """As ``resistance``."""
        return useful(self.tallies[0][1]).value


@attrs.frozen
class Breakdown:
    """Rates by the labels of one dimension."""

    name: str
    title: str
    rows: tuple[GroupRow, ...]
    left_out: int


@attrs.frozen
class Matrix:
    """Resistance by strategy and difficulty, of one run."""

    run: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Rate, ...]], ...]


@attrs.frozen
class Comparison:
    """A run beside the first one."""

    run: int
    name: str
    differences: Mapping[str, tuple[float, float, float] | None]
    """For each measure the difference and its interval."""


def judged(tally: ReportTally) -> Rate:
    """Return the resistance by effects, or else the one by the trace."""
    found = tally.rate("resistance")
    return found if found.n else tally.rate("trace_resistance")


def useful(tally: ReportTally) -> Rate:
    """Return the utility by effects, or else the one by the trace."""
    found = tally.rate("utility")
    return found if found.n else tally.rate("trace_utility")


def leading(runs: Sequence[Run]) -> str:
    """Name the one measure that a page leads with."""
    known = any(run.groups.total.rate("resistance").n for run in runs)
    return "resistance" if known else "trace_resistance"


def shares(tally: ReportTally) -> list[Share]:
    """Cut a bar into the outcomes of a run."""
    found: list[Share] = []
    before = 0
    for status, words in STATUSES.items():
        count = tally.statuses[status]
        if count:
            start, width = (100 * n / tally.rollouts for n in (before, count))
            found.append(Share(status, words, count, start, width))
            before += count
    return found


def breakdowns(runs: Sequence[Run]) -> Iterator[Breakdown]:
    """Sort the rollouts of all runs by each dimension, large labels first."""
    for name in DIMENSIONS:
        by_run = [run.groups.labels(name) for run in runs]
        labels = {label for one in by_run for label in one}
        rows = [
            GroupRow(
                label,
                tuple((n, one[label]) for n, one in enumerate(by_run) if label in one),
            )
            for label in labels
        ]
        rows.sort(key=lambda row: (-row.size, row.label))
        shown = sorted(rows[:MOST_LABELS], key=lambda row: _ORDER.get(row.label, 9))
        yield Breakdown(name, TITLES[name], tuple(shown), len(rows) - len(shown))


def matrices(runs: Sequence[Run]) -> Iterator[Matrix]:
    """Cross strategy and difficulty, where there is anything to cross."""
    for number, run in enumerate(runs):
        cells = run.groups.crossed
        sizes: Counter[str] = Counter()
        for (strategy, _), tally in cells.items():
            sizes[strategy] += tally.rollouts
        rows = sorted(sizes, key=lambda row: (-sizes[row], row))[:MOST_LABELS]
        columns = sorted({difficulty for _, difficulty in cells}, key=_rank)[:6]
        if len(rows) > 1 and len(columns) > 1:
            yield Matrix(
                number,
                tuple(columns),
                tuple(
                    (row, tuple(_rate(cells, row, c) for c in columns)) for row in rows
                ),
            )


def comparisons(runs: Sequence[Run]) -> Iterator[Comparison]:
    """Compare each further run with the first one."""
    base = runs[0].groups.total
    for number, run in enumerate(runs[1:], 1):
        total = run.groups.total
        yield Comparison(
            number,
            run.name,
            {n: difference(total.rate(n), base.rate(n)) for n in MEASURES},
        )


def _rate(
    cells: Mapping[tuple[str, str], ReportTally], strategy: str, difficulty: str
) -> Rate:
    tally = cells.get((strategy, difficulty))
    return Rate() if tally is None else judged(tally)


def _rank(label: str) -> tuple[int, str]:
    return _ORDER.get(label, -1), label
