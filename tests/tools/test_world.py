"""Pure changes of a world: positions, sharing, limits and replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from documents import at
from hypothesis import given
from hypothesis import strategies as st

from ipistate import JsonObject, encode, freeze, thaw
from ipistate.kernel import MAX_DEPTH, JsonValue
from ipistate.kernel.ids import derive_id
from ipistate.testing import json_objects, json_values
from ipistate.tools import world as w
from ipistate.tools.semantics import Refused


WORLD = JsonObject(
    {"a": {"A-1": {"x": 1, "y": 2}, "A-2": {}}, "b": [1], "c": None, "d": "A-1"}
)


def refusal(action: Callable[..., Any], *arguments: object) -> tuple[str, str]:
    """Return the kind and text of the refusal that an action answers with."""
    with pytest.raises(Refused) as caught:
        action(*arguments)
    return caught.value.kind, caught.value.message


def text_of(value: JsonValue) -> str:
    """Return a value as its compact JSON text."""
    return encode(value).decode()


def test_table_and_need() -> None:
    """A missing collection is empty, or an error if it must be there; null is there."""
    assert {} == w.table(WORLD, "z")
    assert w.table(WORLD, "c") is None
    assert at(WORLD, "a") is w.need(WORLD, "a")
    assert w.need(WORLD, "c") is None
    assert ("KeyError", "'z'") == refusal(w.need, WORLD, "z")


@given(json_objects(), json_values(5), st.data())
def test_place_in_an_object(
    row: JsonObject, value: JsonValue, data: st.DataObject
) -> None:
    """A known key keeps its position, a new one goes last, the rest is shared."""
    key = data.draw(st.sampled_from([*row, "new key"]))
    before = encode(row)
    changed: Any = w.place(row, key, value)

    assert [*{**row, key: value}] == [*changed]
    assert at(changed, key) is value
    assert all(at(changed, name) is row[name] for name in row if name != key)
    assert before == encode(row)


def test_place_in_an_array() -> None:
    """A key is an index of an array; what is no index is refused as Python does."""
    array = freeze([1, 2, 3])

    assert "[1,9,3]" == text_of(w.place(array, 1, 9))
    assert "[1,2,9]" == text_of(w.place(array, -1, 9))
    assert "[1,9,3]" == text_of(w.place(array, True, 9))
    assert "[1,2,3]" == text_of(array)
    assert ("IndexError", "list assignment index out of range") == refusal(
        w.place, array, 3, 9
    )
    expected = "list indices must be integers or slices, not str"
    assert ("TypeError", expected) == refusal(w.place, array, "x", 9)


@pytest.mark.parametrize(
    ("container", "name"),
    [(None, "NoneType"), ("x", "str"), (1, "int"), (True, "bool")],
)
def test_place_elsewhere(container: int | str | None, name: str) -> None:
    """Other values take no items and have no append."""
    expected = f"'{name}' object does not support item assignment"
    assert ("TypeError", expected) == refusal(w.place, container, "k", 1)
    expected = f"'{name}' object has no attribute 'append'"
    assert ("AttributeError", expected) == refusal(w.push, container, 1)


def test_place_with_a_key_that_is_no_text() -> None:
    """Keys of an object are strings."""
    assert ("TypeError", "keys are strings, not int") == refusal(
        w.place, freeze({}), 5, 1
    )


def test_push() -> None:
    """An element goes to the end of a new array; an object has no append."""
    array = freeze([[1]])
    longer = w.push(array, "x")

    assert '[[1],"x"]' == text_of(longer)
    assert "[[1]]" == text_of(array)
    assert at(array, 0) is longer[0]
    expected = "'dict' object has no attribute 'append'"
    assert ("AttributeError", expected) == refusal(w.push, freeze({}), 1)


def test_assign() -> None:
    """Fields are set in the order given; what is no object refuses the first one."""
    row = freeze({"x": 1, "y": 2})

    assert '{"x":9,"y":2,"z":[3]}' == text_of(w.assign(row, {"z": freeze([3]), "x": 9}))
    assert '{"x":1,"y":2}' == text_of(w.assign(row, {}))
    assert w.assign(None, {}) is None
    expected = "'str' object does not support item assignment"
    assert ("TypeError", expected) == refusal(w.assign, "text", {"x": 1})


@pytest.mark.parametrize("old", [None, "", 0, [], {}, False, -0.0])
def test_join_to_something_falsy(old: Any) -> None:
    """A falsy field takes what is added as it is, of any type."""
    for value in ("line", 5, [1], ""):
        joined = w.join(freeze({"x": 1, "n": old}), "n", freeze(value))
        assert text_of(freeze(value)) == text_of(joined)


@pytest.mark.parametrize(
    ("old", "value", "expected"),
    [
        ("a", "b", "a\nb"),
        ("a", "", "a\n"),
        ("a", 5, ("TypeError", 'can only concatenate str (not "int") to str')),
        ("a", [1], ("TypeError", 'can only concatenate str (not "list") to str')),
        ([1], "b", ("TypeError", 'can only concatenate list (not "str") to list')),
        ([1], [2], ("TypeError", 'can only concatenate list (not "str") to list')),
        (5, "b", ("TypeError", "unsupported operand type(s) for +: 'int' and 'str'")),
        (
            True,
            "b",
            ("TypeError", "unsupported operand type(s) for +: 'bool' and 'str'"),
        ),
        (
            {"a": 1},
            "b",
            ("TypeError", "unsupported operand type(s) for +: 'dict' and 'str'"),
        ),
    ],
)
def test_join_to_something_truthy(
    old: Any, value: Any, expected: str | tuple[str, str]
) -> None:
    """A truthy field gets a new line, or the refusal of Python's addition."""
    row = freeze({"n": old})
    if isinstance(expected, tuple):
        assert expected == refusal(w.join, row, "n", freeze(value))
    else:
        assert expected == w.join(row, "n", value)


def test_join_elsewhere() -> None:
    """A missing field counts as empty; what is no object has no fields."""
    assert "a" == w.join(freeze({}), "n", "a")
    expected = "'list' object has no attribute 'get'"
    assert ("AttributeError", expected) == refusal(w.join, freeze([]), "n", "a")


def test_not_found_and_look_up() -> None:
    """A reading tool replies with the record, or says that it is not there."""
    assert '{"error":"Order [None, 5] not found."}' == text_of(
        w.not_found("Order", freeze([None, 5]))
    )
    assert at(WORLD, "a", "A-1") is w.look_up(WORLD["a"], "A-1", "Row")
    assert '{"error":"Row A-9 not found."}' == text_of(
        w.look_up(at(WORLD, "a"), "A-9", "Row")
    )
    assert w.look_up(freeze({"k": None}), "k", "Row") is None


def test_with_collection() -> None:
    """A changed collection keeps its place, a new one is the last member."""
    changed = w.with_collection(WORLD, "b", freeze([2]), 2, 2)
    added = w.with_collection(WORLD, "z", freeze([2]), 2, 2)

    assert ["a", "b", "c", "d"] == [*changed]
    assert ["a", "b", "c", "d", "z"] == [*added]
    assert changed["a"] is at(WORLD, "a")
    assert [1] == at(WORLD, "b")
    assert JsonObject is type(changed)


@pytest.mark.parametrize("level", [1, 2, 5])
def test_depth_limit(level: int) -> None:
    """What is put so deep that it passes the limit is refused; one level less is not."""
    put = freeze(1)
    for _ in range(MAX_DEPTH - level):
        put = freeze([put])
    content = freeze(["changed"])
    expected = ("ValueError", "more than 200 levels of nesting")

    assert content is w.with_collection(WORLD, "b", content, put, level)["b"]
    deeper = freeze([put])
    assert expected == refusal(w.with_collection, WORLD, "b", content, deeper, level)


@pytest.mark.parametrize(
    "change",
    [
        lambda row: w.put_back(WORLD, "a", "A-1", row),
        lambda row: w.revise(WORLD, ("a", "Row", "A-1"), lambda _: row, "Done."),
        lambda row: w.append(WORLD, "b", row),
        lambda row: w.update(WORLD, ("a", "Row", "A-1"), row, "Done."),
        lambda row: w.create(WORLD, "a", ("a_id", "A-"), row),
        lambda row: w.enlist(WORLD, "b", ("b_id", "B-"), row),
    ],
)
def test_depth_limit_of_records(change: Callable[..., Any]) -> None:
    """A record may be as deep as fits below its table, and not deeper."""
    deep = freeze(1)
    for _ in range(MAX_DEPTH - 3):
        deep = freeze([deep])
    expected = ("ValueError", "more than 200 levels of nesting")

    assert change(freeze({"x": deep}))
    assert expected == refusal(change, freeze({"x": [deep]}))


def test_put_back_and_revise() -> None:
    """A record is replaced where it stood; everything beside it is shared."""
    where = ("a", "Row", "A-1")
    changed, reply = w.revise(
        WORLD, where, lambda row: {"x": at(row, "x") + 4}, "Done."
    )

    assert "Done." == reply
    assert '{"A-1":{"x":5,"y":2},"A-2":{}}' == text_of(changed["a"])
    assert at(changed, "a", "A-2") is at(WORLD, "a", "A-2")
    assert changed["b"] is WORLD["b"]
    for collection, key in (("a", "A-9"), ("z", "A-1")):
        missing = w.revise(WORLD, (collection, "Row", key), at, "Done.")
        assert (WORLD, f"Error: Row {key} not found.") == missing
    assert '{"A-1":{"x":1,"y":2},"A-2":7}' == text_of(
        w.put_back(WORLD, "a", "A-2", 7)["a"]
    )
    assert '{"k":1}' == text_of(w.put_back(JsonObject({}), "z", "k", 1)["z"])


def test_revise_odd_shapes() -> None:
    """A record in an array is found by value and set by index, as the reference does."""
    world = JsonObject({"a": [1, {"x": 1}, {"x": 2}]})
    changed, _ = w.revise(world, ("a", "Row", 1), lambda _: {"x": 5}, "Done.")

    assert '[1,{"x":5},{"x":2}]' == text_of(at(changed, "a"))
    expected = "string indices must be integers, not 'str'"
    where = ("d", "Row", "A")
    assert ("TypeError", expected) == refusal(w.revise, WORLD, where, dict, "Done.")


def test_update() -> None:
    """An update replies as told, or that there is no such record."""
    changed, reply = w.update(WORLD, ("a", "Row", "A-1"), {"x": 5}, "Done.")
    same, answer = w.update(WORLD, ("a", "Row", "A-19"), {"x": 5}, "Done.")

    assert ("Done.", 5) == (reply, at(changed, "a", "A-1", "x"))
    assert (WORLD, "Error: Row A-19 not found.") == (same, answer)
    assert same is WORLD


def test_create() -> None:
    """A record goes last, its id first; a missing table is created as the last member."""
    members = w.record(x=1)
    world, row = w.create(WORLD, "a", ("a_id", "A-"), members)
    other, first = w.create(WORLD, "z", ("z_id", "Z"), members)
    expected = derive_id("A-", members, "a", at(WORLD, "a"), 2)

    assert ["A-1", "A-2", expected] == [*at(world, "a")]
    assert '{"a_id":"%s","x":1}' % expected == text_of(row)  # noqa: UP031
    assert row is at(world, "a", expected)
    assert [*WORLD, "z"] == [*other]
    assert {derive_id("Z", members, "z", {}, 0): first} == other["z"]


def test_create_odd_shapes() -> None:
    """A collection of another shape takes no new record, with Python's text."""
    expected = "list indices must be integers or slices, not str"
    assert ("TypeError", expected) == refusal(
        w.create, WORLD, "b", ("i", "I"), freeze({})
    )
    expected = "'NoneType' object does not support item assignment"
    assert ("TypeError", expected) == refusal(
        w.create, WORLD, "c", ("i", "I"), freeze({})
    )


def test_enlist_and_append() -> None:
    """A record goes to the end of an array; its id passes over those in the array."""
    members = w.record(x=1)
    first = derive_id("M-", members, "m", (), 3)
    rows = freeze([{"m_id": first}, 5, {"m_id": None}])
    world, row = w.enlist(JsonObject({"m": rows}), "m", ("m_id", "M-"), members)
    other, _ = w.enlist(JsonObject({}), "m", ("m_id", "M-"), members)
    used = derive_id("M-", members, "m", {first}, 3)

    assert (4, used) == (len(at(world, "m")), row["m_id"])
    assert used != first
    assert row is at(world, "m", 3)
    assert [{"m_id": derive_id("M-", members, "m", (), 0), "x": 1}] == other["m"]
    assert '{"b":[1,{"x":1}]}' == text_of(
        w.append(JsonObject({"b": [1]}), "b", members)
    )
    assert '{"z":[{"x":1}]}' == text_of(w.append(JsonObject({}), "z", members))


def test_enlist_odd_shapes() -> None:
    """A collection that is no array has no append."""
    shapes: list[tuple[Any, str]] = [("text", "str"), (None, "NoneType"), ({}, "dict")]
    for shape, name in shapes:
        world = JsonObject({"m": shape})
        expected = f"'{name}' object has no attribute 'append'"
        assert ("AttributeError", expected) == refusal(
            w.enlist, world, "m", ("m_id", "M-"), freeze({})
        )


def test_truthy() -> None:
    """Some tools leave out everything falsy, null included."""
    members = {"a": None, "b": 0, "c": "", "d": freeze([]), "e": 1}

    assert {"e": 1} == w.truthy(**members)


def test_record() -> None:
    """A record's members stand in the order of the arguments."""
    made = w.record(z=1, a=freeze([2]))

    assert '{"z":1,"a":[2]}' == text_of(made)
    assert JsonObject is type(made)
    assert {"z": 1, "a": [2]} == thaw(made)
