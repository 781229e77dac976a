"""Strict records: nothing is coerced, every problem is found, order survives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import attrs
import pytest

from hypothesis import given

from ipistate import Environment, JsonObject, SchemaError, decode, encode, freeze
from ipistate.errors import MAX_PROBLEMS
from ipistate.kernel import EMPTY_OBJECT, MAX_DEPTH, JsonValue
from ipistate.kernel.codec import decode_as
from ipistate.kernel.schema import adopt_members, refuse, structure, unstructure
from ipistate.testing import json_objects, json_values


if TYPE_CHECKING:
    from attr import Attribute


def _even(_: Point, field: Attribute[int], value: int) -> None:
    if value % 2:
        raise refuse("not_even", "expected an even number", value, field)


@attrs.frozen
class Point:
    """A closed record."""

    x: float
    y: int = attrs.field(default=0, validator=_even)


@attrs.frozen(kw_only=True)
class Shape:
    """A record with every kind of field."""

    name: str
    visible: bool
    points: tuple[Point, ...]
    tags: tuple[str, ...] = ()
    style: JsonObject = EMPTY_OBJECT
    note: str | None = None
    anything: JsonValue = None


@attrs.frozen(kw_only=True)
class Open:
    """A record that keeps what it does not know, and the order of everything."""

    name: str
    size: int | None = None
    world: Environment | None = None
    extra: JsonObject = EMPTY_OBJECT
    member_order: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Unordered:
    """An open record that does not remember the order."""

    name: str
    extra: JsonObject = EMPTY_OBJECT


GOOD = {"name": "a", "visible": True, "points": [{"x": 1.5, "y": 2}, {"x": 1}]}


def problems(document: Any, record: type[object]) -> list[tuple[str, str]]:
    """Return the code and path of every problem that a document has."""
    with pytest.raises(SchemaError) as caught:
        structure(document, record)
    return [(one.code, one.path) for one in caught.value.problems]


def test_good_document() -> None:
    """A good document becomes a record with exactly its values."""
    shape = structure(GOOD, Shape)

    assert Shape(name="a", visible=True, points=(Point(1.5, 2), Point(1))) == shape
    assert [float, int] == [type(point.x) for point in shape.points]


def test_containers_inside_are_frozen() -> None:
    """Members that hold open JSON are frozen and not shared with the document."""
    style = {"a": [1]}
    shape: Any = structure({**GOOD, "style": style, "anything": [1]}, Shape)
    style["a"].append(2)

    assert '{"a":[1]}' == encode(shape.style).decode()
    assert "[1]" == encode(shape.anything).decode()
    with pytest.raises(TypeError):
        shape.anything.append(1)


@pytest.mark.parametrize(
    ("member", "value", "expected"),
    [
        ("name", 3, [("wrong_type", "$.name")]),
        ("name", None, [("wrong_type", "$.name")]),
        ("name", ["a"], [("wrong_type", "$.name")]),
        ("visible", 1, [("wrong_type", "$.visible")]),
        ("visible", "true", [("wrong_type", "$.visible")]),
        ("points", {"x": 1}, [("wrong_type", "$.points")]),
        ("points", "ab", [("wrong_type", "$.points")]),
        ("points", None, [("wrong_type", "$.points")]),
        ("points", [[1, 2]], [("wrong_type", "$.points[0]")]),
        ("points", [{"x": 1}, {}], [("missing_member", "$.points[1].x")]),
        ("points", [{"x": True}], [("wrong_type", "$.points[0].x")]),
        ("points", [{"x": "1"}], [("wrong_type", "$.points[0].x")]),
        ("points", [{"x": 1, "y": 2.0}], [("wrong_type", "$.points[0].y")]),
        ("points", [{"x": 1, "y": True}], [("wrong_type", "$.points[0].y")]),
        ("points", [{"x": 1, "y": 3}], [("not_even", "$.points[0].y")]),
        ("points", [{"x": 1, "z w": 3}], [("unknown_member", '$.points[0]["z w"]')]),
        (
            "tags",
            ["a", 1, None],
            [("wrong_type", "$.tags[1]"), ("wrong_type", "$.tags[2]")],
        ),
        ("tags", "abc", [("wrong_type", "$.tags")]),
        ("style", [["a", 1]], [("wrong_type", "$.style")]),
        ("style", {"a": {1}}, [("unsupported_type", "$.style.a")]),
        ("anything", [float("nan")], [("not_finite", "$.anything[0]")]),
        ("note", 3, [("wrong_type", "$.note")]),
        ("other", 3, [("unknown_member", "$.other")]),
    ],
)
def test_wrong_member(member: str, value: Any, expected: list[tuple[str, str]]) -> None:
    """A member of another type is reported with its path and never coerced."""
    assert expected == problems({**GOOD, member: value}, Shape)


@pytest.mark.parametrize("document", [None, [], "{}", 3, [["name", "a"]]])
def test_no_object(document: Any) -> None:
    """Only an object can become a record."""
    assert [("wrong_type", "$")] == problems(document, Shape)


def test_all_problems_in_one_report() -> None:
    """Every problem of a document is reported, in the order of the record."""
    document = {"visible": 0, "points": [{"y": 2}, 5], "b": 1, "a": 2}

    assert [
        ("missing_member", "$.name"),
        ("wrong_type", "$.visible"),
        ("missing_member", "$.points[0].x"),
        ("wrong_type", "$.points[1]"),
        ("unknown_member", "$.a"),
        ("unknown_member", "$.b"),
    ] == sorted_by_place(problems(document, Shape))


def sorted_by_place(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Sort problems stably by the member that they are about."""
    order = ["$.name", "$.visible", "$.points", "$.a", "$.b"]
    return sorted(
        found,
        key=lambda one: next(n for n, m in enumerate(order) if one[1].startswith(m)),
    )


def test_messages() -> None:
    """Messages say what is expected and show a bounded preview."""
    with pytest.raises(SchemaError) as caught:
        structure({"name": 3, "visible": True, "points": [], "ä": 1}, Shape)
    wrong, unknown = caught.value.problems

    assert ("expected a string", "3") == (wrong.message, wrong.preview)
    assert (r"unknown member '\xe4'", None) == (unknown.message, unknown.preview)
    assert "$.name: expected a string (3) [wrong_type] and 1 more" == str(caught.value)


@pytest.mark.parametrize(
    ("record", "document", "message"),
    [
        (Point, {"x": "1"}, "expected a number"),
        (Point, {"x": 1, "y": 1.5}, "expected an integer"),
        (Shape, {**GOOD, "visible": 1}, "expected a boolean"),
        (Shape, {**GOOD, "points": 1}, "expected an array"),
        (Shape, {**GOOD, "style": 1}, "expected an object"),
        (Shape, 1, "expected an object"),
        (Open, {"name": "a", "world": []}, "expected an object"),
        (Point, {}, "required member is missing"),
    ],
)
def test_message_of_each_type(
    record: type[Open | Point | Shape],
    document: int | dict[str, Any],
    message: str,
) -> None:
    """Each type has its name in the message."""
    with pytest.raises(SchemaError) as caught:
        structure(document, record)

    assert message == caught.value.message


@attrs.frozen
class Broken:
    """A record whose validator has a bug."""

    x: int = attrs.field(validator=lambda _, __, value: value.oops)


@attrs.frozen
class Holder:
    """A record that holds such records."""

    parts: tuple[Broken, ...]


@pytest.mark.parametrize(
    ("record", "document"), [(Broken, {"x": 1}), (Holder, {"parts": [{"x": 1}]})]
)
def test_programming_errors_are_not_hidden(
    record: type[Broken | Holder], document: dict[str, Any]
) -> None:
    """An error that is not about the document reaches the caller as it is."""
    with pytest.raises(Exception, match=record.__name__) as caught:
        structure(document, record)
    assert not isinstance(caught.value, SchemaError)


def test_the_search_for_problems_ends_at_the_limit() -> None:
    """An array of wrong elements costs no more than the first hundred of them."""
    looked = []

    def wrong(_: object, field: Attribute[int], value: int) -> NoReturn:
        looked.append(value)
        raise refuse("wrong", "always wrong", value, field)

    field = attrs.field(type=int, validator=wrong)
    element = attrs.make_class("Element", {"x": field})
    array = attrs.field(type=tuple[element, ...])  # type: ignore[valid-type]
    whole = attrs.make_class("Whole", {"parts": array})
    found = problems({"parts": [{"x": n} for n in range(1000)]}, whole)

    assert MAX_PROBLEMS == len(found)
    # The first is looked at twice: once to be read, once to be reported.
    assert [0, *range(MAX_PROBLEMS)] == looked


@pytest.mark.parametrize("more", [-1, 0, 1, 1000])
def test_unknown_members_are_listed_up_to_the_limit(more: int) -> None:
    """Of many unknown members the first hundred are named, with the known ones read."""
    unknown = {f"m{n:04}": n for n in range(MAX_PROBLEMS + more)}
    found = problems({**unknown, "x": 1, "y": 2}, Point)
    named = [("unknown_member", f"$.{name}") for name in unknown]

    assert named[:MAX_PROBLEMS] == found


def test_known_members_are_checked_among_many_unknown_ones() -> None:
    """What is wrong with a known member comes before everything unknown."""
    unknown = {f"m{n:04}": n for n in range(2 * MAX_PROBLEMS)}
    found = problems({**unknown, "x": "1", "y": 2}, Point)

    assert ("wrong_type", "$.x") == found[0]
    assert MAX_PROBLEMS == len(found)


def test_errors_of_records_inside() -> None:
    """A schema error raised by a nested constructor keeps its problems."""
    assert [("wrong_type", "$.world")] == problems({"name": "a", "world": 3}, Open)


@given(json_objects())
def test_open_record_round_trip(members: JsonObject) -> None:
    """An open record gives back every member, known or not, in the document's order."""
    rest = {n: m for n, m in members.items() if n not in {"size", "world", "name"}}
    document = JsonObject({**rest, "name": "a", "size": 3})
    turned = JsonObject(reversed(document.items()))

    for one in (document, turned):
        back = unstructure(structure(one, Open))
        assert encode(one) == encode(back)


@pytest.mark.parametrize(
    "text",
    [
        '{"name":"a"}',
        '{"size":null,"name":"a"}',
        '{"extra":1,"name":"a","member_order":[2]}',
        '{"x":1,"world":{"b":1,"a":2},"name":"a"}',
        '{"extra":{"extra":{}},"name":"a"}',
    ],
)
def test_absent_null_and_odd_members(text: str) -> None:
    """Absent stays absent, null stays null, and no member name is special."""
    assert text == encode(unstructure(structure(decode(text), Open))).decode()


def test_changed_record_is_written_with_its_changes() -> None:
    """A changed member stands where it stood; one that was absent goes last."""
    read = structure({"x": 1, "name": "a", "z": 2}, Open)
    changed = attrs.evolve(read, name="b", size=5)

    assert '{"x":1,"name":"b","z":2,"size":5}' == encode(unstructure(changed)).decode()


def test_record_without_order() -> None:
    """Without an order the members stand as declared, unknown ones last."""
    read = structure({"z": 1, "name": "a", "b": 2}, Unordered)

    assert '{"name":"a","z":1,"b":2}' == encode(unstructure(read)).decode()
    made = Open(name="a", extra=JsonObject({"q": 1}))
    assert (
        '{"name":"a","size":null,"world":null,"q":1}'
        == encode(unstructure(made)).decode()
    )


def test_nested_records_are_written() -> None:
    """Records, tuples of records and environments inside a record are written out."""
    shape = structure(GOOD, Shape)
    world = Open(name="a", world=Environment.of({"b": 1}))

    assert (
        '{"name":"a","visible":true,"points":[{"x":1.5,"y":2},{"x":1,"y":0}],'
        '"tags":[],"style":{},"note":null,"anything":null}'
    ) == encode(unstructure(shape)).decode()
    assert b'"world":{"b":1}' in encode(unstructure(world))


@given(json_values(max_depth=MAX_DEPTH))
def test_members_of_a_wrapper_have_the_full_depth(value: JsonValue) -> None:
    """Each member of a wrapper may be as deep as a value on its own."""
    text = b'{"a":%b,"b":[%b]}' % (encode(value), b"1")
    members: Any = decode_as(text, adopt_members)

    assert encode(value) == encode(members["a"])
    assert {"a", "b"} == members.keys()
    assert [1] == decode_as("[1]", adopt_members)


def test_b28_values_are_not_coerced() -> None:
    """B28: text, null and an array that lenient conversion would accept are refused."""

    @attrs.frozen
    class Metadata:
        """What a snapshot says about itself."""

        schema_version: int
        episode: str
        tags: tuple[str, ...]

    found = problems({"schema_version": "1", "episode": None, "tags": "abc"}, Metadata)

    assert [
        ("wrong_type", f"$.{n}") for n in ("schema_version", "episode", "tags")
    ] == found


def test_b29_misspelt_members_are_named() -> None:
    """B29: an unknown member is a problem, not a reason to use a default."""
    found = problems({"x": 1, "yy": 7}, Point)

    assert [("unknown_member", "$.yy")] == found


def test_frozen_documents_are_read_like_plain_ones() -> None:
    """A record reads frozen values and plain data alike."""
    assert structure(GOOD, Shape) == structure(freeze(GOOD), Shape)
