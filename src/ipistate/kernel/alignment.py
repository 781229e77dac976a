"""Which elements of one array are still there in another: the stretches that differ.

Both ends that are the same are left out first. Between them elements are matched by
their text, the first of its kind with the first and so on, and the longest ascending
chain of matches stays: n log n, however often elements repeat.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import compress, count
from operator import is_not, ne
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ipistate.kernel.codec import encode


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ipistate.kernel.values import JsonArray

T = TypeVar("T")


class Gap(NamedTuple):
    """Indices of two arrays between elements that match; not both are empty."""

    before: range
    after: range


class _Match(NamedTuple):
    before: int
    after: int


def gaps(before: JsonArray, after: JsonArray) -> Iterator[Gap]:
    """Find the stretches of two arrays that may differ, in order.

    Outside of them the arrays are identical, element by element. Inside elements at the
    same place may be, too, above all a single one, which has not been compared.
    """
    start, left, right = _trimmed([*before], [*after], is_not)
    sizes = len(left), len(right)
    if all(sizes) and max(sizes) > 1:
        texts = [*map(encode, left)], [*map(encode, right)]
        more, one, other = _trimmed(*texts, ne)
        yield from _between(_matches(one, other), start + more, len(one), len(other))
    else:
        yield from _between([], start, *sizes)


def _between(matches: list[_Match], start: int, left: int, right: int) -> Iterator[Gap]:
    last = _Match(-1, -1)
    for match in (*matches, _Match(left, right)):
        gap = Gap(
            range(start + last.before + 1, start + match.before),
            range(start + last.after + 1, start + match.after),
        )
        if gap.before or gap.after:
            yield gap
        last = match


def _trimmed(
    left: list[T], right: list[T], differ: Callable[[T, T], bool]
) -> tuple[int, list[T], list[T]]:
    # Runs at the speed of C if the comparison does.
    start = first_difference(left, right, differ)
    left, right = left[start:], right[start:]
    end = first_difference(left[::-1], right[::-1], differ)
    return start, left[: len(left) - end], right[: len(right) - end]


def first_difference(
    left: Sequence[T], right: Sequence[T], differ: Callable[[T, T], bool] = ne
) -> int:
    """Return how many elements, or characters, both begin with."""
    shorter = min(len(left), len(right))
    return next(compress(count(), map(differ, left, right)), shorter)


def _matches(left: list[bytes], right: list[bytes]) -> list[_Match]:
    places = {named: place for place, named in enumerate(_named(right))}
    found = [
        _Match(index, places[named])
        for index, named in enumerate(_named(left))
        if named in places
    ]
    return _longest_ascending(found)


def _named(texts: list[bytes]) -> Iterator[tuple[bytes, int]]:
    # Equal elements are told apart by how many stood before them.
    seen: Counter[bytes] = Counter()
    for text in texts:
        yield text, seen[text]
        seen[text] += 1


def _longest_ascending(matches: list[_Match]) -> list[_Match]:
    # Patience sorting: ends[n] is the best last match of a chain of n + 1 matches.
    places: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for index, match in enumerate(matches):
        length = bisect_left(places, match.after)
        places[length : length + 1] = [match.after]
        ends[length : length + 1] = [index]
        previous.append(ends[length - 1] if length else -1)
    chain: list[_Match] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        chain.append(matches[at])
        at = previous[at]
    return chain[::-1]
