"""Frozen values: immutable, ordered, safe to share, copy, hash and pickle."""

from __future__ import annotations

import copy
import datetime as dt
import enum
import json
import operator
import os
import pickle
import subprocess
import sys

from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

from documents import at
from hypothesis import example, given
from hypothesis import strategies as st

from ipistate import (
    EncodeError,
    Environment,
    JsonArray,
    JsonObject,
    call_tool,
    encode,
    freeze,
    identical,
    thaw,
)
from ipistate.errors import ImmutableError
from ipistate.kernel import (
    MAX_DEPTH,
    JsonValue,
    concatenated,
    depth,
    trusted_array,
    trusted_object,
    whole_text,
    with_addition,
    with_element,
    with_member,
)
from ipistate.testing import json_objects, json_strings, json_values, plain_json


Point = namedtuple("Point", "x y")  # noqa: PYI024 - a caller's own type


class Colour(enum.StrEnum):
    """A caller's own kind of text."""

    RED = "red"


class Count(int):
    """A caller's own kind of number."""


class Names(list[Any]):
    """A caller's own kind of list."""


MUTATIONS = {
    "set item": lambda o: o.__setitem__("a", 1),
    "delete item": lambda o: o.__delitem__("a"),
    "update in place": lambda o: o.__ior__({"b": 1}),
    "clear": lambda o: o.clear(),
    "pop": lambda o: o.pop("a"),
    "popitem": lambda o: o.popitem(),
    "setdefault": lambda o: o.setdefault("b", 1),
    "update": lambda o: o.update(b=1),
}
ARRAY_MUTATIONS = {
    "set item": lambda a: a.__setitem__(0, 1),
    "set slice": lambda a: a.__setitem__(slice(0, 1), []),
    "delete item": lambda a: a.__delitem__(0),
    "extend in place": lambda a: a.__iadd__([1]),
    "repeat in place": lambda a: a.__imul__(2),
    "append": lambda a: a.append(1),
    "extend": lambda a: a.extend([1]),
    "insert": lambda a: a.insert(0, 1),
    "remove": lambda a: a.remove(1),
    "pop": lambda a: a.pop(),
    "clear": lambda a: a.clear(),
    "sort": lambda a: a.sort(),
    "reverse": lambda a: a.reverse(),
}


@pytest.mark.parametrize("change", MUTATIONS.values(), ids=MUTATIONS)
def test_objects_are_immutable(change: Callable[..., None]) -> None:
    """Every way to change a dict in place is refused and changes nothing."""
    one = JsonObject({"a": [1]})

    with pytest.raises(ImmutableError, match="JsonObject is immutable; thaw") as caught:
        change(one)
    assert "immutable" == caught.value.code
    assert '{"a":[1]}' == encode(one).decode()


@pytest.mark.parametrize("change", ARRAY_MUTATIONS.values(), ids=ARRAY_MUTATIONS)
def test_arrays_are_immutable(change: Callable[..., None]) -> None:
    """Every way to change a list in place is refused and changes nothing."""
    one = JsonArray([1, 2])

    with pytest.raises(ImmutableError, match="JsonArray is immutable; thaw"):
        change(one)
    assert [1, 2] == one


@pytest.mark.parametrize(("kind", "base"), [(JsonObject, dict), (JsonArray, list)])
def test_no_mutator_is_forgotten(
    kind: type[JsonValue], base: type[dict[str, Any] | list[Any]]
) -> None:
    """Every public method of the base class either is known to be pure or is refused."""
    pure = {
        dict: "copy fromkeys get items keys values",
        list: "copy count index",
    }[base].split()
    methods = {name for name in dir(base) if not name.startswith("_")}

    for name in methods.difference(pure):
        with pytest.raises(ImmutableError):
            getattr(kind(), name)()  # type: ignore[misc]


def test_a_new_value_cannot_be_initialised_again() -> None:
    """Calling the initialiser again changes nothing."""
    one, other = JsonObject({"a": 1}), JsonArray([1])
    one.__init__({"b": 2})  # type: ignore[misc]
    other.__init__([2])  # type: ignore[misc]

    assert ({"a": 1}, [1]) == (one, other)


def test_containers_take_no_attributes() -> None:
    """A frozen container cannot be used to smuggle state."""
    for one in (JsonObject(), JsonArray()):
        with pytest.raises(AttributeError):
            one.note = 1  # type: ignore[union-attr]


@given(plain_json())
def test_freeze_and_thaw(value: dict[str, Any] | list[Any] | None) -> None:
    """Thawing gives plain, equal data that shares no container with the frozen form."""
    frozen = freeze(value)
    thawed = thaw(frozen)

    assert identical(frozen, thawed)
    assert not ids(frozen) & ids(thawed)
    assert not ids(frozen) & ids(value)
    assert kinds(thawed) <= {dict, list}
    assert kinds(frozen) <= {JsonObject, JsonArray}


def containers(value: Any) -> Iterator[Any]:
    """Yield every container in a value."""
    if isinstance(value, dict | list):
        yield value
        for part in value.values() if isinstance(value, dict) else value:
            yield from containers(part)


def ids(value: Any) -> set[int]:
    """Return the identities of all containers in a value."""
    return {id(one) for one in containers(value)}


def kinds(value: Any) -> set[type[object]]:
    """Return the classes of all containers in a value."""
    return {type(one) for one in containers(value)}


@given(
    json_values(max_depth=MAX_DEPTH - 1).filter(lambda v: isinstance(v, dict | list))
)
def test_freezing_again_shares(value: JsonValue) -> None:
    """A frozen container is used as it is."""
    assert value is freeze(value)
    assert value is at(freeze([value]), 0)
    assert value is value.copy() is copy.copy(value)
    assert value is copy.deepcopy(value)


@given(json_values(), st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_pickling(value: JsonValue, protocol: int) -> None:
    """A pickled value comes back identical and frozen."""
    back = pickle.loads(pickle.dumps(value, protocol))

    assert identical(value, back)
    assert kinds(back) <= {JsonObject, JsonArray}
    assert encode(value) == encode(back)


@given(st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_pickling_keeps_what_is_shared(protocol: int) -> None:
    """A table that two worlds share is one object after loading, and so is a record."""
    table = JsonObject({"P-1": {"tags": ["a"]}})
    other = with_member(table, "P-2", JsonArray())
    worlds = [JsonObject({"patients": part}) for part in (table, table, other)]

    one, two, three = pickle.loads(pickle.dumps(worlds, protocol))

    assert one["patients"] is two["patients"]
    assert one["patients"]["P-1"] is three["patients"]["P-1"]
    assert one is not two


def test_pickling_checks_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a pickle holds was checked before, so a part that is shared costs nothing."""
    value = JsonObject({"a": JsonArray([JsonObject({"b": 1})])})
    pickled = pickle.dumps(value)

    def walk(*_: object) -> None:
        raise AssertionError("a part was checked again")

    monkeypatch.setattr("ipistate.kernel.values.depth", walk)
    monkeypatch.setattr("ipistate.kernel.values._frozen", walk)

    assert identical(value, pickle.loads(pickled))


@given(json_values(), json_values())
def test_equal_values_have_equal_hashes(left: JsonValue, right: JsonValue) -> None:
    """Values that compare equal hash equal, whatever the order of their members."""
    assert hash(left) == hash(freeze(thaw(left)))
    if isinstance(left, dict):
        turned = JsonObject(reversed(left.items()))
        assert (left, hash(left)) == (turned, hash(turned))
    if left == right:
        assert hash(left) == hash(right)


def test_hashes_agree_where_equality_does() -> None:
    """The numbers 1, 1.0 and true are equal, so objects that hold them are, too."""
    values = [freeze({"a": [one]}) for one in (1, 1.0, True)]

    assert 1 == len({*values})
    assert not identical(values[0], values[1])


def test_hashes_tell_values_apart() -> None:
    """Different values mostly have different hashes, or tables of them would be slow."""
    for wrap in (lambda n: {"n": n}, lambda n: [n], lambda n: {str(n): 1}):
        assert 90 < len({hash(freeze(wrap(number))) for number in range(100)})


def test_union_keeps_order_and_freezes() -> None:
    """The union of objects keeps positions, puts new names last and is frozen."""
    one = JsonObject({"b": 1, "a": [2]})
    joined = one | {"c": {"d": 1}, "b": 3}
    turned = {"c": 0, "b": 5} | one

    assert '{"b":3,"a":[2],"c":{"d":1}}' == encode(joined).decode()
    assert '{"c":0,"b":1,"a":[2]}' == encode(turned).decode()
    assert {JsonObject, JsonArray} == kinds(joined) | kinds(turned)
    assert joined["a"] is one["a"]


def test_union_with_something_else() -> None:
    """A union with what is not an object is a type error, as for a dict."""
    with pytest.raises(TypeError):
        JsonObject() | [1]
    with pytest.raises(TypeError):
        [1] | JsonObject()
    with pytest.raises(EncodeError):
        JsonObject() | {1: 2}


def test_arrays_stay_arrays() -> None:
    """Slices, sums and repetitions of arrays are frozen arrays."""
    one = JsonArray([1, [2]])
    results = [one[:1], one + [{"a": 1}], one * 2, 2 * one]  # noqa: RUF005

    assert ["[1]", '[1,[2],{"a":1}]', "[1,[2],1,[2]]", "[1,[2],1,[2]]"] == [
        encode(found).decode() for found in results
    ]
    assert {JsonArray} == {type(found) for found in results}
    assert (1, [2]) == (one[0], one[-1])
    with pytest.raises(TypeError):
        operator.add(one, (1,))


def test_arrays_compare_and_print_as_lists() -> None:
    """Replies print arrays as Python prints lists and compare them as lists."""
    one = freeze(["a", None, {"k": True}])

    assert "['a', None, {'k': True}]" == str(one)
    assert ["a", None, {"k": True}] == one
    assert freeze(("a", None, {"k": True})) == one


REFUSED = {
    "not a number": (float("nan"), "not_finite", "nan"),
    "infinity": (float("inf"), "not_finite", "inf"),
    "minus infinity": (float("-inf"), "not_finite", "-inf"),
    "long integer": (10**4300, "integer_too_large", "int of ~4300 digits"),
    "long negative integer": (-(10**4300), "integer_too_large", "int of ~4300 digits"),
    "integer as a name": ({1: 2}, "key_not_string", "1"),
    "tuple as a name": ({("a", "b"): 2}, "key_not_string", "tuple of 2"),
    "null as a name": ({None: 2}, "key_not_string", "None"),
    "true as a name": ({True: 2}, "key_not_string", "True"),
    "set": ({1}, "unsupported_type", "set of 1"),
    "bytes": (b"abc", "unsupported_type", "b'abc'"),
    "date": (dt.date(2026, 3, 1), "unsupported_type", "date"),
    "decimal": (Decimal("1.5"), "unsupported_type", "Decimal"),
    "complex number": (1j, "unsupported_type", "complex"),
    "object": (object(), "unsupported_type", "object"),
    "function": (len, "unsupported_type", "builtin_function_or_method"),
    "generator": ((n for n in "ab"), "unsupported_type", "generator"),
}


@pytest.mark.parametrize(("value", "code", "shown"), REFUSED.values(), ids=REFUSED)
def test_b22_what_json_cannot_carry_is_refused(
    value: object, code: str, shown: str
) -> None:
    """B22: a value outside JSON is refused with its path and a bounded preview."""
    where = '$.patients["P-1"][1]'
    with pytest.raises(EncodeError) as caught:
        freeze({"patients": {"P-1": [0, value]}})

    error = caught.value
    assert (code, where, shown) == (error.code, error.path, error.preview)


def test_b22_message_names_the_type() -> None:
    """B22: the message names the module and the class."""
    with pytest.raises(
        EncodeError, match=r"\$: JSON cannot carry datetime.date; write .*\("
    ):
        freeze(dt.date(2026, 3, 1))
    with pytest.raises(
        EncodeError, match=r"\$: object keys are strings, not int; .* \(1\)"
    ):
        freeze({1: 2})


SUBCLASSES = {
    "ordered dict": OrderedDict(a=1),
    "default dict": defaultdict(list, a=[1]),
    "text enumeration": Colour.RED,
    "named tuple": Point(1, 2),
    "integer subclass": Count(3),
    "list subclass": Names([1]),
}


@pytest.mark.parametrize("value", SUBCLASSES.values(), ids=SUBCLASSES)
def test_b23_subclasses_are_refused(value: object) -> None:
    """B23: a subclass would come back as something else, so plain types are required."""
    with pytest.raises(EncodeError) as caught:
        Environment.of({"orders": [value]})

    assert ("unsupported_type", "$.orders[0]") == (caught.value.code, caught.value.path)


def test_b23_names_are_plain_strings() -> None:
    """B23: a text enumeration as a member's name is refused, too."""
    with pytest.raises(EncodeError) as caught:
        freeze({Colour.RED: 1})

    assert "key_not_string" == caught.value.code


def test_b26_the_caller_keeps_no_part() -> None:
    """B26: what the caller does to its seed later does not reach the session."""
    seed: dict[str, Any] = {"patients": {"P-1": {"name": "Ada", "conditions": ["flu"]}}}
    world = Environment.of(seed)
    seed["patients"]["P-1"]["conditions"].append("cold")
    seed["patients"].clear()
    seed.clear()
    reply = call_tool(world, "get_patient_record", {"patient_id": "P-1"}).output

    assert '{"name": "Ada", "conditions": ["flu"]}' == reply


def test_b26_arguments_are_not_kept() -> None:
    """B26: a list among the arguments may change after the call."""
    parties = ["A", "B"]
    arguments = dict.fromkeys(
        ("case_id", "document_type", "title", "filing_date", "court_name", "file_path"),
        "x",
    )
    call = {**arguments, "served_parties": parties}
    world = call_tool(Environment.of({}), "create_document_filing", call).environment
    before = world.to_json()
    parties.clear()

    assert before == world.to_json()
    assert b'"served_parties":["A","B"]' in before


CHILD = """
import copy, pickle, sys
world, value = pickle.load(sys.stdin.buffer)
assert hash(world) == hash(copy.deepcopy(world))
assert value in {value: 1} and {world: 2}[world] == 2
sys.stdout.buffer.write(world.to_json())
"""


@pytest.mark.parametrize("seed", ["0", "1"])
def test_b31_hashes_are_not_pickled(seed: str) -> None:
    """B31: a world unpickled under another hash seed is equal, hashable and complete."""
    world = Environment.of({"patients": {"P-1": {"name": "Ada"}}, "messages": ["a"]})
    hash(world)
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=pickle.dumps((world, world.document)),
        env={
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        check=True,
    )

    assert world.to_json() == done.stdout


def test_identical_is_stricter_than_equality() -> None:
    """Kind of number, sign of zero and order of members count; the container does not."""
    apart: list[tuple[Any, Any]] = [
        (1, 1.0),
        (1, True),
        (0, False),
        (0.0, -0.0),
        ("1", 1),
        (None, False),
        ([], {}),
        ([], ""),
        ([1], [1, 1]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1}, {"a": 1, "b": 1}),
        ([[0.0]], [[-0.0]]),
        ("a", "b"),
        (2, 3),
        (1.5, 2.5),
    ]

    for left, right in apart:
        assert not identical(left, right)
        assert not identical(freeze(left), freeze(right))
        assert identical(freeze(left), left)
        assert identical(right, freeze(right))
    assert identical(1.5, 3.0 / 2)
    assert identical(-0.0, 0.0 * -1)


@given(json_values(), json_values())
def test_identical_means_the_same_text(left: JsonValue, right: JsonValue) -> None:
    """Two values are identical exactly if they encode to the same bytes."""
    assert (encode(left) == encode(right)) == identical(left, right)


@given(plain_json())
def test_depth(value: dict[str, Any] | list[Any] | None) -> None:
    """Depth counts the containers inside one another."""
    text = json.dumps(value, skipkeys=False)
    level = deepest = 0
    inside = False
    skip = False
    for character in text:
        if skip:
            skip = False
        elif inside and character == "\\":
            skip = True
        elif character == '"':
            inside = not inside
        elif not inside and character in "[{":
            level += 1
            deepest = max(deepest, level)
        elif not inside and character in "]}":
            level -= 1

    assert deepest == depth(freeze(value))


def tower(levels: int) -> Any:
    """Build arrays and objects inside one another."""
    value: Any = 0
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


def test_depth_limit() -> None:
    """The deepest value is accepted; one level more is refused, however it is built."""
    deepest = freeze(tower(MAX_DEPTH))
    refused: list[Callable[[], JsonValue]] = [
        lambda: freeze(tower(MAX_DEPTH + 1)),
        lambda: freeze([tower(MAX_DEPTH)]),
        lambda: freeze([deepest]),
        lambda: JsonObject({"a": deepest}),
        lambda: JsonArray([deepest]),
        lambda: JsonObject() | {"a": deepest},
        lambda: JsonArray() + [deepest],  # noqa: RUF005
        lambda: freeze(tower(5000)),
        lambda: freeze(([tower(MAX_DEPTH - 1)],)),
    ]

    assert MAX_DEPTH == depth(deepest)
    for build in refused:
        with pytest.raises(EncodeError) as caught:
            build()
        assert "too_deep" == caught.value.code
        assert "more than 200 levels of nesting" == caught.value.message


def test_path_of_deep_values_is_bounded() -> None:
    """The path of what is too deep shows its beginning only."""
    with pytest.raises(EncodeError) as caught:
        freeze(tower(MAX_DEPTH + 1))

    assert "$[0]" not in caught.value.path or len(caught.value.path) < 60
    assert 8 == caught.value.path.count("in") + caught.value.path.count("[0]")


@given(json_objects(), st.data())
def test_a_changed_copy_shares_the_rest(
    members: JsonObject, data: st.DataObject
) -> None:
    """Setting a member keeps its position, puts a new one last and copies nothing else."""
    name = data.draw(st.sampled_from([*members, "new name"]))
    changed = with_member(members, name, "value")
    expected = {**members, name: "value"}

    assert list(expected) == list(changed)
    assert "value" == changed[name]
    assert all(changed[n] is members[n] for n in members if n != name)
    assert JsonObject is type(changed)


@given(
    st.lists(json_values(3, MAX_DEPTH - 1), min_size=1, max_size=4).map(JsonArray),
    st.data(),
)
def test_a_changed_array_shares_the_rest(
    elements: JsonArray, data: st.DataObject
) -> None:
    """Setting or adding an element gives a new array and leaves the old one."""
    before = list(elements)
    at = data.draw(st.integers(0, len(elements) - 1))
    changed, longer = with_element(elements, at, "x"), with_addition(elements, "x")

    assert [*before[:at], "x", *before[at + 1 :]] == changed
    assert [*before, "x"] == longer
    assert before == elements
    assert {JsonArray} == {type(changed), type(longer)}


def test_trusted_containers_are_frozen_copies() -> None:
    """The unchecked makers copy the container that they are given."""
    members, elements = {"a": 1}, [1]
    one, other = trusted_object(members), trusted_array(elements)
    members["b"] = 2
    elements.append(2)

    assert ({"a": 1}, [1]) == (one, other)
    assert (JsonObject, JsonArray) == (type(one), type(other))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("é😀", "é😀"),
        ("\ud83d\ude00", "😀"),
        ("a\ud83d\ude00b\ud83d", "a😀b\ud83d"),
        ("\ude00\ud83d", "\ude00\ud83d"),
        ("\ud83d\ud83d\ude00", "\ud83d😀"),
        ("\ud83d", "\ud83d"),
        ("é\udfff", "é\udfff"),
    ],
)
def test_surrogates_that_stand_together_are_one_character(
    text: str, expected: str
) -> None:
    """A pair of surrogates is its character; a surrogate without a partner stays."""
    assert expected == whole_text(text)
    assert {expected: [expected]} == freeze({text: [text]})
    assert identical(freeze(text), freeze(json.loads(json.dumps(text))))


@given(json_strings(), json_strings())
@example("a\ud83d", "\ude00b")
@example("\ud83d", "\ude00")
@example("\ud83d", "")
@example("", "\ude00")
def test_addition_of_whole_texts(left: str, right: str) -> None:
    """The sum of whole texts is whole: halves of a character join where they meet."""
    left, right = whole_text(left), whole_text(right)

    assert whole_text(left + right) == concatenated(left, right)


def test_names_that_become_equal() -> None:
    """Two spellings of one name are one member: the last value at the first position."""
    value = freeze({"\ud83d\ude00": 1, "b": 2, "😀": 3})

    assert '{"😀":3,"b":2}' == encode(value).decode()


@pytest.mark.parametrize("base", [JsonObject, JsonArray])
def test_b32_frozen_containers_have_no_subclasses(base: type[JsonValue]) -> None:
    """B32: a subclass is refused when it is defined, since storage would lose it."""
    why = f"^{base.__name__} cannot be subclassed: it would not survive storage$"
    with pytest.raises(TypeError, match=why):
        type("Sub", (base,), {})
