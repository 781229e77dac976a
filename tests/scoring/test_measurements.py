"""Statistics of a column: against the standard library, and against published tables."""

from __future__ import annotations

import statistics

from math import isfinite

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate.scoring.measurements import Measurements, student95


NUMBERS = st.lists(st.floats(-1e6, 1e6) | st.integers(-9, 9), min_size=1, max_size=30)


@given(NUMBERS)
def test_agrees_with_the_standard_library(numbers: list[float]) -> None:
    """Mean, median, deviation and quartiles are the usual ones."""
    column = Measurements.of(numbers)

    assert statistics.fmean(numbers) == pytest.approx(column.mean)
    assert statistics.median(numbers) == pytest.approx(column.quantile(0.5))
    assert (min(numbers), max(numbers)) == (column.values[0], column.values[-1])
    if len(numbers) > 1:
        quartiles = statistics.quantiles(numbers, method="inclusive")
        assert quartiles == pytest.approx(
            [column.quantile(p) for p in (0.25, 0.5, 0.75)]
        )
        assert statistics.stdev(numbers) == pytest.approx(column.deviation, abs=1e-6)


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=20))
def test_largest_numbers_have_finite_statistics(numbers: list[float]) -> None:
    """No statistic of numbers within 1e300 is one that JSON cannot carry."""
    column = Measurements.of(numbers)
    bounds = column.interval or (0.0, 0.0)

    assert all(map(isfinite, (column.mean, column.deviation, column.error, *bounds)))


def test_one_number() -> None:
    """One number has no spread, and no interval."""
    column = Measurements.of([-0.0])

    assert ("0.0", "0.0", None) == (
        repr(column.mean),
        repr(column.deviation),
        column.interval,
    )


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [
        (1, 12.706204736175),
        (2, 4.302652729749),
        (3, 3.182446305284),
        (4, 2.776445105198),
        (10, 2.228138851986),
        (101, 1.983731002956),
        (1000, 1.962339080826),
        (1001, 1.962336705281),
        (5000, 1.960438551707),
    ],
)
def test_students_quantiles(freedom: int, quantile: float) -> None:
    """The tables' values, on both ways of computing them."""
    assert quantile == pytest.approx(student95(freedom), abs=2e-12)
