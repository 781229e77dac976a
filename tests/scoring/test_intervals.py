"""Rates have intervals, and so have their differences."""

from __future__ import annotations

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate.scoring.intervals import Rate, difference


@pytest.mark.parametrize(
    ("one", "base", "expected"),
    [
        ((56, 70), (48, 80), (0.2000, 0.0524, 0.3339)),
        ((9, 10), (3, 10), (0.6000, 0.1705, 0.8090)),
        ((10, 10), (0, 10), (1.0000, 0.6075, 1.0000)),
        ((0, 10), (0, 10), (0.0000, -0.2775, 0.2775)),
    ],
)
def test_known_differences(
    one: tuple[int, int], base: tuple[int, int], expected: tuple[float, float, float]
) -> None:
    """Published intervals of differences (Newcombe 1998, table II, method 10)."""
    found = difference(Rate(*one), Rate(*base))

    assert found is not None
    assert expected == tuple(round(value, 4) for value in found)


@given(st.integers(1, 500), st.integers(1, 500), st.data())
def test_differences_mirror(n: int, m: int, data: st.DataObject) -> None:
    """The difference of B to A is that of A to B with the sign changed."""
    one = Rate(data.draw(st.integers(0, n)), n)
    base = Rate(data.draw(st.integers(0, m)), m)
    found = difference(one, base)
    assert found is not None
    value, low, high = found

    assert low <= value <= high
    assert (-value, -high, -low) == pytest.approx(difference(base, one))


def test_nothing_has_no_rate_and_no_difference() -> None:
    """0 of 0 is no rate; it has no interval, and differs from nothing."""
    nothing = Rate()

    assert [None] * 3 == [
        nothing.value,
        nothing.interval,
        difference(nothing, Rate(1, 1)),
    ]


def test_a_rate_is_written_with_its_interval_and_counts() -> None:
    """A document has the rate, both ends of the interval, successes and n."""
    written = Rate(1, 2).to_document()

    assert ["rate", "low", "high", "successes", "n"] == [*written]
    assert (0.5, 1, 2) == (written["rate"], written["successes"], written["n"])
