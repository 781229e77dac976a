"""Operators on JSON values: the interpreter's results, and its texts when it refuses."""

from __future__ import annotations

import operator

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from documents import at
from hypothesis import given
from hypothesis import strategies as st

from ipistate import JsonArray, decode, encode, freeze, thaw
from ipistate.kernel import MAX_DEPTH, JsonValue
from ipistate.testing import json_strings, json_values
from ipistate.tools.semantics import (
    ABSENT,
    MAX_REPEAT,
    Absent,
    Refused,
    add,
    contains,
    field,
    find,
    greater,
    index_of,
    iterate,
    less,
    lower,
    multiply,
    no_attribute,
    required,
    take,
    text,
    type_name,
    walk,
)


PLAIN = [
    None,
    False,
    True,
    0,
    1,
    -1,
    2,
    2**70,
    -(2**70),
    10**400,
    1.5,
    -0.0,
    1.0,
    "",
    "a",
    "abA",
    "é\ud83d",
    [],
    [1],
    [True],
    ["a", None],
    [1, "a"],
    [1, [2], {"a": 1}],
    [1, [2, "a"]],
    [1, [2, 3]],
    [{"a": 1}],
    {},
    {"a": 1},
    {"a": None, "1": [1]},
]
PAIRS = list(product(PLAIN, PLAIN))


def outcome(
    action: Callable[..., Any], *arguments: Any
) -> str | bytes | tuple[str, str]:
    """Return what an action gives: its value's bytes, or the exception it answers with."""
    try:
        result: Any = action(*arguments)
    except Refused as refused:
        return refused.kind, refused.message
    except Exception as error:  # noqa: BLE001 - whatever Python answers
        return type(error).__name__, str(error)
    if isinstance(result, Absent):
        return "absent"
    return encode(
        freeze(thaw(at(result))) if isinstance(result, list | dict) else result
    )


def same(ours: Callable[..., Any], native: Callable[..., Any], *arguments: Any) -> Any:
    """Tell whether our operator and Python's do the same, or say what they do."""
    mine = outcome(ours, *map(freeze, arguments))
    python = outcome(native, *arguments)
    return True if mine == python else (arguments, mine, python)


def native_find(container: Any, key: Any) -> Any:
    """Look a key up as the reference does: test membership, then subscribe."""
    return container[key] if key in container else ABSENT  # noqa: SIM401 - not only objects


BINARY = {
    "contains": (contains, lambda container, key: key in container),
    "find": (find, native_find),
    "add": (add, operator.add),
    "multiply": (multiply, operator.mul),
    "less": (less, operator.lt),
    "greater": (greater, operator.gt),
    "field": (
        lambda row, default: field(row, "a", default),
        lambda r, d: r.get("a", d),
    ),
}
UNARY = {
    "lower": (lower, lambda value: value.lower()),
    "iterate": (lambda value: [*iterate(value)], lambda value: [*iter(value)]),
    "walk": (lambda value: [*walk(value)], lambda value: [*value.values()]),
    "text": (text, str),
    "type name": (type_name, lambda value: type(value).__name__),
    "field": (lambda row: field(row, "a"), lambda row: row.get("a")),
}


@pytest.mark.parametrize(("ours", "native"), BINARY.values(), ids=BINARY)
def test_binary_operators_are_pythons(
    ours: Callable[..., Any], native: Callable[..., Any]
) -> None:
    """Results and refusals are the interpreter's, for all pairs of kinds of values."""
    for left, right in PAIRS:
        assert same(ours, native, left, right) is True


@pytest.mark.parametrize(("ours", "native"), UNARY.values(), ids=UNARY)
def test_unary_operators_are_pythons(
    ours: Callable[..., Any], native: Callable[..., Any] | type[str]
) -> None:
    """Results and refusals are the interpreter's, for all kinds of values."""
    for value in PLAIN:
        assert same(ours, native, value) is True


@given(json_values(), json_values())
def test_equality_is_pythons(left: JsonValue, right: JsonValue) -> None:
    """Frozen values compare as the plain ones do."""
    assert (thaw(left) == thaw(right)) == (left == right)


@given(json_strings(), json_strings())
def test_lower_casing_is_pythons(whole: str, part: str) -> None:
    """Lower-casing follows the full Unicode rules, and so does looking for a part."""
    assert whole.lower() == lower(freeze(whole))
    assert contains(whole, part) == (part in whole)


@given(
    st.lists(json_values(2, MAX_DEPTH - 1), max_size=4).map(freeze), st.integers(-6, 6)
)
def test_taking_from_arrays(array: JsonArray, index: int) -> None:
    """An integer that an array contains is used as an index."""
    assert same(take, operator.getitem, thaw(array), index) is True


def test_taking_from_objects() -> None:
    """What an object contains is taken as it is stored."""
    row = freeze({"P-1": {"a": [1]}})

    assert at(row, "P-1") is take(row, "P-1")
    assert at(row, "P-1") is find(row, "P-1")
    assert ABSENT is find(row, "P-2")
    assert ABSENT is find(row, 1)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (0, 0),
        (True, True),
        (-3, -3),
        (2, 2),
        (3, ("IndexError", "gone")),
        (-4, ("IndexError", "gone")),
        (2**63 - 1, ("IndexError", "gone")),
        (-(2**63), ("IndexError", "gone")),
        (2**63, ("IndexError", "cannot fit 'int' into an index-sized integer")),
        (-(2**63) - 1, ("IndexError", "cannot fit 'int' into an index-sized integer")),
        ("0", ("TypeError", "list indices must be integers or slices, not str")),
        (None, ("TypeError", "list indices must be integers or slices, not NoneType")),
        ({}, ("TypeError", "list indices must be integers or slices, not dict")),
    ],
)
def test_index_of(key: Any, expected: bool | int | tuple[str, str]) -> None:
    """A key is an index if Python's subscript takes it; the caller words the rest."""
    found = outcome(index_of, freeze([1, 2, 3]), freeze(key), "gone")

    assert (expected if isinstance(expected, tuple) else encode(expected)) == found


def test_required() -> None:
    """A member that must be there is a KeyError with quotes if it is not."""
    row = freeze({"name": None})

    assert required(row, "name") is None
    for odd in (row, freeze([]), None, "patient_id"):
        assert ("KeyError", "'patient_id'") == outcome(required, odd, "patient_id")


def test_no_attribute() -> None:
    """Types are named as Python names them, whatever our classes are called."""
    values: list[tuple[Any, str]] = [
        ({}, "dict"),
        ([], "list"),
        (None, "NoneType"),
        (1.0, "float"),
    ]
    for value, name in values:
        refused = no_attribute(freeze(value), "get")
        expected = f"'{name}' object has no attribute 'get'"
        assert ("AttributeError", expected) == (refused.kind, refused.message)


@pytest.mark.parametrize(
    ("action", "left", "right", "expected"),
    [
        (multiply, 1e200, 1e200, "the result is not a finite number"),
        (multiply, -1e200, 1e200, "the result is not a finite number"),
        (add, 1.7e308, 1.7e308, "the result is not a finite number"),
        (multiply, 10**4000, 10**300, "the result has more than 4300 digits"),
        (multiply, -(10**4000), 10**300, "the result has more than 4300 digits"),
        (add, 10**4300 - 1, 1, "the result has more than 4300 digits"),
        (add, -(10**4300) + 1, -1, "the result has more than 4300 digits"),
        (multiply, 10**400, 1.5, "int too large to convert to float"),
        (add, 1.5, 10**400, "int too large to convert to float"),
    ],
)
def test_results_json_cannot_carry(
    action: Callable[..., Any], left: float, right: float, expected: str
) -> None:
    """A result that JSON cannot carry is refused instead of stored."""
    assert ("OverflowError", expected) == outcome(action, left, right)


def test_largest_results() -> None:
    """The largest integer and the largest texts are stored."""
    assert 10**4300 - 1 == add(10**4300 - 2, 1)
    assert 1 - 10**4300 == multiply(10**4300 - 1, -1)
    assert MAX_REPEAT == len(at(multiply("ab", MAX_REPEAT // 2)))
    assert MAX_REPEAT // 3 == len(at(multiply(freeze([1]), MAX_REPEAT // 3)))


@pytest.mark.parametrize("sequence", ["ab", freeze([1, 2])])
def test_long_repetitions(sequence: JsonValue) -> None:
    """What would not fit into memory is refused as Python refuses it, but earlier."""
    for pair in ((sequence, MAX_REPEAT), (MAX_REPEAT // 2 + 1, sequence)):
        message = "the result is longer than 1,000,000"
        assert ("MemoryError", message) == outcome(multiply, *pair)


@pytest.mark.parametrize("sequence", ["", "ab", []])
@pytest.mark.parametrize(
    "count", [-(2**63) - 1, -(2**63), -(2**62), -1, 0, 2**63, 2**63 + 1, 2**64]
)
def test_repetitions_at_the_limits_of_an_index(
    sequence: str | list[Any], count: int
) -> None:
    """A count that does not fit an index is refused as Python refuses it."""
    assert same(multiply, operator.mul, sequence, count) is True
    assert same(multiply, operator.mul, count, sequence) is True


@pytest.mark.parametrize("element", ["x" * 1000, [[[1] * 300]]])
def test_repeated_arrays_count_by_their_text(
    element: str | list[list[list[int]]],
) -> None:
    """A short array of large elements is as large as its text."""
    found = outcome(multiply, freeze([element]), MAX_REPEAT // 100)

    assert "MemoryError" == found[0]


def test_repetitions_are_frozen() -> None:
    """Repeated and joined arrays are frozen arrays that share their elements."""
    row = freeze({"a": 1})
    twice, joined = multiply(2, freeze([row])), add(freeze([row]), freeze([row]))

    assert {JsonArray} == {type(twice), type(joined)}
    assert at(twice, 1) is row
    assert at(joined, 1) is row


def test_surrogates_that_meet() -> None:
    """Text that is added or repeated joins surrogates that come to stand together."""
    assert "😀" == add("\ud83d", "\ude00")
    assert "\ude00😀\ud83d" == multiply("\ude00\ud83d", 2)


@given(json_values(), json_values())
def test_refusals_have_a_known_kind(left: JsonValue, right: JsonValue) -> None:
    """No pair of JSON values makes an operator raise anything but a refusal."""
    kinds = {
        "TypeError",
        "IndexError",
        "OverflowError",
        "MemoryError",
        "AttributeError",
    }
    for action in (contains, find, add, multiply, less, greater):
        found: Any = outcome(action, left, right)

        assert found == "absent" or found[0] in kinds or decode(found) is not found


def test_refused_is_an_exception_with_two_parts() -> None:
    """A refusal carries the exception's name and its text."""
    refused = Refused("TypeError", "no")

    assert ("TypeError", "no") == (refused.kind, refused.message) == refused.args
