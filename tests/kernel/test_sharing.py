"""Shared parts: the same values as without sharing, equal ones as one object."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate import DecodeError, JsonObject, JsonValue, decode, encode
from ipistate.kernel import Adopt, SharedParts, decode_as
from ipistate.testing import json_values


def reader() -> Any:
    """Return a function that reads texts with one memory of shared parts."""
    parts = SharedParts()

    def build(tree: Any, adopt: Adopt) -> JsonValue:
        return parts.adopting(adopt)(tree)

    return lambda text: decode_as(text, build)


RECORDS = st.fixed_dictionaries(
    {"id": st.sampled_from(["1", 1, 1.0, True, 0.0, -0.0, "é", None])},
    optional={"b": st.sampled_from([[], [1], {"c": 2**63}, 2.0**64, 2**64])},
)
COLLECTIONS = st.one_of(
    st.dictionaries(st.sampled_from("abc"), RECORDS),
    st.lists(RECORDS, max_size=4),
    st.sampled_from([1, "x", None]),
)
WORLDS = st.dictionaries(st.sampled_from("xyz"), COLLECTIONS)


@given(st.lists(WORLDS, max_size=8))
def test_sharing_changes_no_value(worlds: list[dict[str, Any]]) -> None:
    """What was read before never shows in what is read, to the digit and the order."""
    read = reader()
    for world in worlds:
        text = encode(JsonObject(world))

        assert text == encode(read(text))


@given(st.lists(json_values(), max_size=4))
def test_any_value_can_be_read(values: list[Any]) -> None:
    """Also what is no world at all."""
    read = reader()
    for value in values:
        text = encode(value)

        assert text == encode(read(text)) == encode(decode(text))


def test_equal_worlds_are_one_object() -> None:
    """However the text that brought them is spelled."""
    read = reader()
    texts = [
        '{"a":{"b":{"c":1}}}',
        '{"a": {"b":{"c" :1}}}',
        '{"\\u0061":{"b":{"c":1}}}',
    ]

    assert len({id(world) for world in map(read, texts)}) == 1


TABLE = {f"r{n}": {"name": f"n{n}", "tags": [n]} for n in range(4)}
LIST = list(TABLE.values())


def changed(collection: Any, place: Any, record: Any) -> Any:
    """Return a copy with another record in a place."""
    copy = orjson.loads(orjson.dumps(collection))
    copy[place] = record
    return copy


@pytest.mark.parametrize("place", range(4))
def test_records_that_did_not_change_are_shared(place: int) -> None:
    """A world like a known one has a copy of nothing but the difference."""
    read = reader()
    worlds = [
        {"table": TABLE, "list": LIST, "same": TABLE},
        {
            "table": changed(TABLE, f"r{place}", {"other": 1}),
            "list": changed(LIST, place, {"other": 1}),
            "same": TABLE,
        },
    ]
    first, second = (read(orjson.dumps(world)) for world in worlds)

    assert first["same"] is second["same"]
    for number in range(4):
        is_shared = number != place
        name = f"r{number}"
        assert is_shared == (first["table"][name] is second["table"][name])
        assert is_shared == (first["list"][number] is second["list"][number])


@pytest.mark.parametrize("collection", [[], [{"a": 1}], LIST[:2], [*LIST, {"a": 1}]])
def test_collections_may_grow_and_shrink(collection: list[Any]) -> None:
    """A list that is longer or shorter than the known one keeps its length."""
    read = reader()
    read(orjson.dumps({"list": LIST, "other": 0}))
    text = orjson.dumps({"list": collection, "other": 1})

    assert text == encode(read(text))


def test_a_table_is_not_taken_for_a_list() -> None:
    """What begins alike may be of another kind."""
    read = reader()
    texts = [b'{"a":{"":{"b":1},"c":{}}}', b'{"a":[{"b":1},{}]}', b'{"a":{"":{"b":1}}}']

    assert texts == [encode(read(text)) for text in texts]


def test_what_is_too_deep_is_refused_as_without_sharing() -> None:
    """Depth is what adopting checks, also where no text can be written."""
    text = b'{"a":' * 300 + b"1" + b"}" * 300

    with pytest.raises(DecodeError, match="levels") as refused:
        reader()(text)
    assert refused.value.code == "too_deep"
