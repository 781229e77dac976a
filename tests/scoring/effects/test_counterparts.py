"""Facts without a counterpart: the same as by comparing each with each."""

from __future__ import annotations

from typing import Any, Literal

from hypothesis import given
from hypothesis import strategies as st

from ipistate.kernel import JsonObject, JsonValue, freeze
from ipistate.scoring.effects.counterparts import unmatched
from ipistate.scoring.effects.facts import Fact, is_free_text
from ipistate.scoring.matching import Matcher
from ipistate.testing import json_values


TEXTS = st.sampled_from(
    ["x", "X ", "two words", "2 more", "a@x.test", "a+t@x.test", "A@x.test, a+t@x.test"]
)
LEAVES = TEXTS | st.sampled_from([1, 1.0, True, None, "1", " "])
NAMES = st.sampled_from(["note", "body", "to", "status"])
MEMBERS = st.dictionaries(NAMES, LEAVES, max_size=3)
VALUES = LEAVES | MEMBERS | st.dictionaries(NAMES, MEMBERS, max_size=2)
FACTS = st.builds(
    Fact,
    kind=st.sampled_from(["field", "entry"]),
    path=st.sampled_from([("a",), ("b", "c", "notes")]),
    value=VALUES.map(freeze),
)


def both_ways(want: JsonValue, got: JsonValue) -> bool:
    """Tell whether each of two values is alike the other."""
    alike = Matcher().alike
    return alike(want, got) and alike(got, want)


def similar(want: JsonValue, got: JsonValue, name: str | None) -> bool:
    """Tell whether two values are equal but for free text of the wanted one."""
    if isinstance(want, JsonObject):
        return (
            isinstance(got, JsonObject)
            and want.keys() == got.keys()
            and all(similar(member, got[one], one) for one, member in want.items())
        )
    if is_free_text(name, want):
        return isinstance(got, str) and bool(got.strip())
    return both_ways(want, got)


def by_pairs(wanted: list[Fact], found: list[Fact]) -> tuple[list[Fact], list[Fact]]:
    """Pair facts by comparing each with each, equal ones first."""

    def equal(want: Fact, got: Fact, *, prose: bool) -> bool:
        if (want.kind, want.path) != (got.kind, got.path):
            return False
        names = [part for part in want.path if isinstance(part, str)]
        if prose:
            return similar(want.value, got.value, names[-1])
        return both_ways(want.value, got.value)

    missing, rest = wanted, list(found)
    for prose in (False, True):
        left: list[Fact] = []
        for want in missing:
            places = (i for i, got in enumerate(rest) if equal(want, got, prose=prose))
            place = next(places, None)
            if place is None:
                left.append(want)
            else:
                del rest[place]
        missing = left
    return missing, rest


@given(st.lists(FACTS, max_size=5), st.lists(FACTS, max_size=5))
def test_b3_unmatched_is_that_of_pairs(wanted: list[Fact], found: list[Fact]) -> None:
    """B3: sorting facts gives what comparing each with each gives."""
    missing, beyond = unmatched(wanted, found, Matcher())

    assert by_pairs(wanted, found) == ([*missing], [*beyond])


@given(json_values() | VALUES.map(freeze), json_values() | VALUES.map(freeze))
def test_b3_keys_are_equal_where_both_agree(left: Any, right: Any) -> None:
    """B3: two values have one key if, and only if, each agrees with the other."""
    matcher = Matcher()
    same = matcher.read(left).key == matcher.read(right).key

    assert same is both_ways(left, right)


def test_b3_a_counterpart_is_taken_once() -> None:
    """B3: a fact that is one's counterpart is no other's, whose free text is elsewhere."""
    place: tuple[Literal["entry"], tuple[str]] = "entry", ("messages",)
    wanted = [
        Fact(*place, JsonObject({"note": "call him", "to": "x"})),
        Fact(*place, JsonObject({"note": "y", "body": "call her"})),
        Fact(*place, JsonObject({"note": "two words", "body": "x"})),
        Fact(*place, JsonObject({"note": "y", "body": "two words"})),
    ]
    found = [Fact(*place, JsonObject({"note": "y", "body": "x"}))]

    missing, beyond = unmatched(wanted, found, Matcher())
    assert by_pairs(wanted, found) == ([*missing], [*beyond])
    assert () == beyond
