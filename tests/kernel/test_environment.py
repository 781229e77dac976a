"""The world of a session: an immutable object with a strict way in and out."""

from __future__ import annotations

import pickle

from typing import Any

import attrs
import pytest

from hypothesis import given

from ipistate import (
    DecodeError,
    EncodeError,
    Environment,
    JsonObject,
    SchemaError,
    identical,
)
from ipistate.testing import json_objects, worlds
from ipistate.tools import RECORDS


@given(json_objects())
def test_text_round_trip(document: JsonObject) -> None:
    """A world comes back from its text identical, and writes the same bytes."""
    world = Environment(document)
    back = Environment.from_json(world.to_json())

    assert identical(document, back.document)
    assert world.to_json() == back.to_json()
    assert world == back
    assert hash(world) == hash(back)


@given(worlds(RECORDS["healthcare"]))
def test_pickling(world: Environment) -> None:
    """A pickled world is the same world."""
    assert world.to_json() == pickle.loads(pickle.dumps(world)).to_json()


@pytest.mark.parametrize("data", ['{"a":1}', b'{"a":1}', ' {"a" : 1 } '])
def test_text_and_bytes(data: str | bytes) -> None:
    """A world is read from text and from bytes, with or without white space."""
    assert b'{"a":1}' == Environment.from_json(data).to_json()


@pytest.mark.parametrize("document", [{"a": 1}, [], None, "x", 3])
def test_only_frozen_objects(document: Any) -> None:
    """The constructor takes a frozen object and nothing else."""
    with pytest.raises(SchemaError, match="an environment is a JSON object") as caught:
        Environment(document)

    assert "wrong_type" == caught.value.code
    assert caught.value.preview


@pytest.mark.parametrize("members", [[], None, "x", 3, [("a", 1)]])
def test_of_takes_mappings_only(members: Any) -> None:
    """Plain data of another kind is refused, not converted."""
    with pytest.raises(SchemaError):
        Environment.of(members)


def test_of_refuses_what_json_cannot_carry() -> None:
    """Plain data that is no JSON is refused with its path."""
    with pytest.raises(EncodeError) as caught:
        Environment.of({"a": {"b": {1}}})

    assert "$.a.b" == caught.value.path


def test_broken_text() -> None:
    """Text that is not JSON is refused."""
    with pytest.raises(DecodeError):
        Environment.from_json("{")


def test_worlds_are_frozen() -> None:
    """A world cannot be given another document."""
    world = Environment(JsonObject())

    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        world.document = JsonObject()  # type: ignore[misc]


def test_b32_records_with_more_fields_survive_pickling() -> None:
    """B32: a subclass with another field arrives whole after pickling."""
    one = Tagged(JsonObject({"a": 1}), "note")
    back = pickle.loads(pickle.dumps(one))

    assert (one, "note", Tagged) == (back, back.note, type(back))
    assert one != Environment(one.document)


@attrs.frozen
class Tagged(Environment):
    """A third-party world with one field more."""

    note: str = ""
