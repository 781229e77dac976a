"""Statistics of a task file, compared with counting by hand."""

from __future__ import annotations

from collections import Counter
from statistics import median_low

from hypothesis import given
from hypothesis import strategies as st

from ipistate.generate import DOMAINS, generate
from ipistate.generate.stats import LABELS, SIZES, RowTally, Spread
from ipistate.scoring.task import Task


def tasks(count: int, seed: int = 4) -> list[Task]:
    """Return some generated rows."""
    return [one.task for one in generate(tuple(DOMAINS), count, seed, size=2_000)]


@given(st.lists(st.integers(-50, 50), min_size=1))
def test_spread_is_that_of_the_numbers(numbers: list[int]) -> None:
    """The ends and the lower median of any numbers, however they are repeated."""
    found = Spread.of(Counter(numbers))

    assert min(numbers) == found.smallest
    assert median_low(numbers) == found.median
    assert max(numbers) == found.largest


def test_counts_add_up() -> None:
    """Every label counts each row once, the most frequent value first."""
    tally, rows = RowTally(), tasks(60)
    for task in rows:
        tally.add(task)
    found = tally.statistics()

    assert 60 == found.rows
    assert (set(LABELS), set(SIZES)) == (set(found.counts), set(found.sizes))
    for name, values in found.counts.items():
        assert Counter(map(LABELS[name], rows)) == values
        assert sorted(values.values(), reverse=True) == list(values.values())


def test_repetitions_are_counted() -> None:
    """A row that stands there twice repeats itself, its prompt and its text."""
    tally, rows = RowTally(), tasks(5)
    for task in [*rows, rows[2], rows[2]]:
        tally.add(task)

    expected = {"rows": 2, "prompts": 2, "injection_texts": 2}
    assert expected == tally.statistics().duplicates
