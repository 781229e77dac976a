"""Which elements of an array are still there: what is left out is the same."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate import encode, freeze, identical
from ipistate.kernel.alignment import first_difference, gaps
from ipistate.kernel.values import JsonArray
from ipistate.testing import json_values


FEW = st.lists(st.sampled_from((0, 1, True, 0.0, -0.0, "a")), max_size=12).map(freeze)
DISTINCT = st.lists(st.integers(0, 9), unique=True).map(freeze)
ANY = st.lists(json_values(5, 20), max_size=6).map(freeze)
PAIRS = st.one_of(
    st.tuples(FEW, FEW), st.tuples(DISTINCT, DISTINCT), st.tuples(ANY, ANY)
)


def kept(before: JsonArray, after: JsonArray) -> list[tuple[int, int]]:
    """Return the pairs of elements that stand outside of all gaps."""
    olds, news = [*range(len(before))], [*range(len(after))]
    for gap in gaps(before, after):
        olds = [index for index in olds if index not in gap.before]
        news = [index for index in news if index not in gap.after]
    return [*zip(olds, news, strict=True)]


def longest_common(before: JsonArray, after: JsonArray) -> int:
    """Return the length of the longest common subsequence, by definition."""
    left, right = [*map(encode, before)], [*map(encode, after)]

    @cache
    def longest(i: int, j: int) -> int:
        if i == len(left) or j == len(right):
            return 0
        if left[i] == right[j]:
            return 1 + longest(i + 1, j + 1)
        return max(longest(i + 1, j), longest(i, j + 1))

    return longest(0, 0)


@given(PAIRS)
def test_outside_of_gaps_everything_is_identical(
    pair: tuple[JsonArray, JsonArray],
) -> None:
    """What no gap holds is identical, element by element and in order."""
    before, after = pair

    assert all(identical(before[old], after[new]) for old, new in kept(before, after))


@given(PAIRS)
def test_gaps_are_in_order_and_not_empty(pair: tuple[JsonArray, JsonArray]) -> None:
    """Gaps follow one another with something kept between them."""
    found = [*gaps(*pair)]
    for one, other in pairwise(found):
        assert one.before.stop < other.before.start
        assert one.after.stop < other.after.start
    assert all(gap.before or gap.after for gap in found)


@given(st.tuples(DISTINCT, DISTINCT))
def test_most_of_distinct_elements_is_kept(pair: tuple[JsonArray, JsonArray]) -> None:
    """If no element repeats, as many are kept as can be."""
    pairs = kept(*pair)
    # A gap of one element on both sides has not been compared, but those differ here.
    assert longest_common(*pair) == len(pairs)


@given(FEW, st.integers(0, 12), st.integers(0, 3))
def test_a_removed_stretch_is_one_gap(
    before: JsonArray, start: int, length: int
) -> None:
    """A stretch that is gone is the only gap, even among elements that repeat."""
    after = JsonArray([*before[:start], *before[start + length :]])
    found = [*gaps(before, after)]

    assert len(before) - len(after) == sum(len(gap.before) for gap in found)
    assert len(found) <= 1
    assert [] == [gap for gap in found if gap.after]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([], [], []),
        ([1], [1.0], [((0, 1), (0, 1))]),
        ([1, 2], [2, 1], [((0, 1), (0, 0)), ((2, 2), (1, 2))]),
        ([1, 2, 3], [1, 3], [((1, 2), (1, 1))]),
        (
            ["x", "u", "x", "v"],
            ["u", "x", "v", "x"],
            [((0, 1), (0, 0)), ((2, 3), (1, 2)), ((4, 4), (3, 4))],
        ),
        (
            ["a", "x", "x", "b"],
            ["c", "x", "x", "d"],
            [((0, 1), (0, 1)), ((3, 4), (3, 4))],
        ),
        ([1, 2, 3, 4], [9, 2, 8, 8, 4], [((0, 1), (0, 1)), ((2, 3), (2, 4))]),
    ],
)
def test_gaps(
    before: list[int | str],
    after: list[float | str],
    expected: list[tuple[tuple[int, int], tuple[int, int]]],
) -> None:
    """The smallest cases, with the ranges of both arrays."""
    found = gaps(JsonArray(before), JsonArray(after))

    assert expected == [
        ((gap.before.start, gap.before.stop), (gap.after.start, gap.after.stop))
        for gap in found
    ]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [("", "", 0), ("", "a", 0), ("ab", "ab", 2), ("ab", "abc", 2), ("abc", "axc", 1)],
)
def test_first_difference(left: str, right: str, expected: int) -> None:
    """Two texts have their first difference where they begin to differ, or one ends."""
    assert expected == first_difference(left, right) == first_difference(right, left)
