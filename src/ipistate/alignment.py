"""Which elements of one array are still there in another: the stretches that differ.

Both ends that are the same are left out first. Between them elements are matched by
their text, the first of its kind with the first and so on, and the longest ascending
chain of matches stays: n log n, however often elements repeat.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import compress, count
from operator import is_not
from typing import TYPE_CHECKING, NamedTuple

from ipistate.codec import encode
from ipistate.values import identical


if TYPE_CHECKING:
    from collections.abc import Iterator

    from ipistate.values import JsonArray, JsonValue


class Gap(NamedTuple):
    """Stretches of two arrays between elements that match; not both are empty."""

    before: range
    after: range


class _Match(NamedTuple):
    before: int
    after: int


def gaps(before: JsonArray, after: JsonArray) -> Iterator[Gap]:
    """Find the stretches of two arrays that differ, in order."""
    return _gaps(list(before), list(after))


def _gaps(before: list[JsonValue], after: list[JsonValue]) -> Iterator[Gap]:
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    left = before[start : len(before) - end]
    right = after[start : len(after) - end]
    stop = _Match(len(left), len(right))
    last = _Match(-1, -1)
    for match in (*_matches(left, right), stop):
        gap = Gap(
            range(start + last.before + 1, start + match.before),
            range(start + last.after + 1, start + match.after),
        )
        if gap.before or gap.after:
            yield gap
        last = match


def _common(before: list[JsonValue], after: list[JsonValue]) -> int:
    # Shared elements are passed over at the speed of C.
    for index in compress(count(), map(is_not, before, after)):
        if not identical(before[index], after[index]):
            return index
    return min(len(before), len(after))


def _matches(left: list[JsonValue], right: list[JsonValue]) -> list[_Match]:
    if not left or not right or len(left) == len(right) == 1:
        return []
    places = {named: place for place, named in enumerate(_named(right))}
    found = [
        _Match(index, places[named])
        for index, named in enumerate(_named(left))
        if named in places
    ]
    return _longest_ascending(found)


def _named(elements: list[JsonValue]) -> Iterator[tuple[bytes, int]]:
    # Equal elements are told apart by how many stood before them.
    seen: Counter[bytes] = Counter()
    for text in map(encode, elements):
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
