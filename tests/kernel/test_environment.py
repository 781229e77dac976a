"""The world of a session: an immutable object with a strict way in and out."""

from __future__ import annotations

import pickle

from typing import Any

import attrs
import pytest

from documents import at
from hypothesis import given
from hypothesis import strategies as st

from ipistate import (
    DecodeError,
    EncodeError,
    Environment,
    JsonArray,
    JsonObject,
    JsonValue,
    SchemaError,
    encode,
    identical,
)
from ipistate.kernel import MAX_DEPTH
from ipistate.testing import json_names, json_objects, json_values, worlds
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


CLINIC = Environment.of(
    {
        "patients": {"P-7": {"name": "R. Osei", "age": 41, "weight": 70.5}},
        "messages": [{"from": "a"}, "text"],
        "open": True,
        "<b>": None,
    }
)


@given(json_objects())
def test_d7_a_world_reads_like_its_document(document: JsonObject) -> None:
    """D7: subscript, membership, length and order are those of the document."""
    world = Environment(document)

    assert [*document] == [*world]
    assert len(document) == len(world)
    assert bool(document) == bool(world)
    assert all(name in world and world[name] is document[name] for name in world)
    assert "no such collection" not in world
    with pytest.raises(KeyError):
        world["no such collection"]


def paths(value: JsonValue) -> list[tuple[str | int, ...]]:
    """Name every place of a value."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    return [(), *((step, *rest) for step, part in items for rest in paths(part))]


KINDS: tuple[type, ...] = (str, bool, int, float, JsonArray, JsonObject)


@given(json_objects(max_leaves=8), st.data())
def test_d7_every_place_is_read(document: JsonObject, data: st.DataObject) -> None:
    """D7: ``at`` gives what stands at a path, of its own type and of no other."""
    path = data.draw(st.sampled_from(paths(document)))
    value = at(document, *path)
    world = Environment(document)
    fitting = [kind for kind in KINDS if type(value) is kind]
    fitting += [float] if type(value) is int else []

    assert world.at(*path) is value
    for kind in KINDS:
        if kind in fitting:
            assert world.at(*path, of=kind) is value
        else:
            with pytest.raises(SchemaError) as caught:
                world.at(*path, of=kind)
            assert "wrong_type" == caught.value.code


@pytest.mark.parametrize(
    ("path", "code", "where"),
    [
        (("patients", "P-8", "name"), "missing_member", '$.patients["P-8"]'),
        (("messages", 2), "missing_member", "$.messages[2]"),
        (("messages", "first"), "missing_member", "$.messages.first"),
        (("patients", 0), "missing_member", "$.patients[0]"),
        (("open", "door"), "wrong_type", "$.open"),
        (("messages", 1, "from"), "wrong_type", "$.messages[1]"),
    ],
)
def test_d7_a_place_that_is_not_there(path: Any, code: str, where: str) -> None:
    """D7: the error names the first step that leads nowhere."""
    with pytest.raises(SchemaError) as caught:
        CLINIC.at(*path)

    assert code == caught.value.code
    assert caught.value.path.startswith(where)


@pytest.mark.parametrize("path", [["patients", "P-7"], ("patients",), None, 1.5])
def test_d7_a_path_is_given_step_by_step(path: Any) -> None:
    """D7: a path in one piece is the caller's mistake, and the error shows how."""
    with pytest.raises(TypeError, match=r'write at\("patients", "P-7"\)'):
        CLINIC.at(path)


@pytest.mark.parametrize(("of", "name"), [(int, "an integer"), (bytes, "bytes")])
def test_d7_a_value_of_another_type(of: Any, name: str) -> None:
    """D7: the error says what was expected, where, and what is there."""
    with pytest.raises(SchemaError, match=f"expected {name}") as caught:
        CLINIC.at("patients", "P-7", "name", of=of)

    assert ('$.patients["P-7"].name', "'R. Osei'") == (
        caught.value.path,
        caught.value.preview,
    )


@given(json_objects())
def test_d5_a_world_is_shown_in_two_lines(document: JsonObject) -> None:
    """D5: the representation of a world is bounded, printable, and reads nothing twice."""
    shown = repr(Environment(document))

    assert len(shown) <= 200
    assert shown.isprintable()


def test_d5_a_world_is_shown_by_its_collections() -> None:
    """D5: a collection is shown with its size, another member with its value."""
    expected = "Environment(patients: 1, messages: 2, open: True, '<b>': None)"

    assert expected == repr(CLINIC)
    assert "Environment()" == repr(Environment.of({}))
    large = Environment.of({f"table_{n}": {"a": "x" * 9_999} for n in range(99)})
    assert repr(large).endswith("… (99 members))")


def test_d5_a_world_in_a_notebook() -> None:
    """D5: a notebook shows a table of the collections; names are escaped."""
    page = CLINIC._repr_html_()

    assert "<td>patients</td><td>1</td>" in page
    assert "<td>&lt;b&gt;</td><td>None</td>" in page


@st.composite
def repeated_texts(draw: st.DrawFn) -> tuple[str, tuple[str, ...]]:
    """Texts with one repeated member, and the path of the object that holds it."""
    path = draw(st.lists(json_names(), max_size=3))
    name = draw(json_names())
    # The objects around a value count, too.
    values = json_values(max_leaves=3, max_depth=MAX_DEPTH - len(path) - 1)
    one, other = (encode(draw(values)).decode() for _ in range(2))
    key = encode(name).decode()
    text = f"{{{key}:{one},{key}:{other}}}"
    for step in reversed(path):
        text = f"{{{encode(step).decode()}:{text}}}"
    return text, (*path, name)


@given(repeated_texts())
def test_d8_repeated_members_are_kept_or_refused(
    given_text: tuple[str, tuple[str, ...]],
) -> None:
    """D8: the last value counts, or the text is refused with the member's path."""
    text, path = given_text
    kept = Environment.from_json(text)

    assert kept.to_json() == Environment.from_json(text, repeated="last").to_json()
    with pytest.raises(DecodeError, match="more than once") as caught:
        Environment.from_json(text, repeated="refuse")
    assert "duplicate_key" == caught.value.code
    assert caught.value.path.startswith("$")
    assert kept.at(*path) is at(kept.document, *path)


@given(json_objects())
def test_d8_what_repeats_nothing_is_read_alike(document: JsonObject) -> None:
    """D8: without a repeated member both ways of reading give the same world."""
    text = encode(document)

    assert text == Environment.from_json(text, repeated="refuse").to_json()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "syntax"),
        ('{"a":NaN}', "not_finite"),
        ('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), "too_deep"),
        ('{"a":' * 20_000, "too_deep"),
    ],
)
def test_d8_other_faults_are_named_as_ever(text: str, code: str) -> None:
    """D8: a text that is refused for another reason has the code of that reason."""
    with pytest.raises(DecodeError) as caught:
        Environment.from_json(text, repeated="refuse")

    assert code == caught.value.code
