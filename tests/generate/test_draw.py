"""Drawing: in range, without repetition, the same everywhere."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ipistate.generate.draw import Draw


draws = st.builds(Draw, st.text())


def test_a_seed_draws_these_numbers() -> None:
    """The sequence of a seed is fixed for good."""
    draw = Draw("seed")

    assert [138, 236, 865, 286, 43, 965, 726, 607] == [
        draw.below(1_000) for _ in range(8)
    ]


@given(draws, st.integers(-1_000, 1_000), st.integers(0, 1_000), st.integers(1, 7))
def test_numbers_are_in_range(draw: Draw, low: int, width: int, step: int) -> None:
    """Both ends may be drawn, and nothing beyond."""
    found = draw.number(low, low + width, step)

    assert low <= found <= low + width
    assert (found - low) % step == 0


@given(draws, st.integers(0, 50), st.integers(0, 50))
def test_small_numbers_are_in_range(draw: Draw, low: int, width: int) -> None:
    """Small ones are likelier, but none is out of range."""
    assert low <= draw.small(low, low + width) <= low + width


def test_small_numbers_are_likelier() -> None:
    """Most of the drawn numbers are in the lower half."""
    draw = Draw("x")
    found = Counter(draw.small(0, 99) < 50 for _ in range(1_000))

    assert found[True] > 750


@given(draws, st.lists(st.integers(), unique=True), st.integers(0, 12))
def test_some_are_different_ones(draw: Draw, options: list[int], amount: int) -> None:
    """A few of several: no more than there are, none of them twice."""
    found = draw.some(options, amount)

    assert min(amount, len(options)) == len(set(found)) == len(found)
    assert set(found) <= set(options)


@given(draws, st.lists(st.integers()))
def test_shuffling_loses_nothing(draw: Draw, options: list[int]) -> None:
    """All are there again, in some order."""
    assert Counter(options) == Counter(draw.shuffled(options))


def test_every_order_comes_up() -> None:
    """Each of the orders of three is drawn about equally often."""
    draw = Draw("orders")
    found = Counter(tuple(draw.shuffled("abc")) for _ in range(1_200))

    assert len(found) == 6
    assert min(found.values()) > 140


@given(draws, st.integers(1, 12))
def test_digits(draw: Draw, amount: int) -> None:
    """A numeral has as many digits as asked, and no leading zero."""
    found = draw.digits(amount)

    assert (amount, True) == (len(found), found.isdecimal())
    assert not found.startswith("0")


@given(draws)
def test_chances_at_the_ends(draw: Draw) -> None:
    """What never is, is not; what always is, is."""
    assert (False, True) == (draw.chance(0), draw.chance(100))
