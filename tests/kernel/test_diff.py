"""Diffs of worlds: applied they give the other one, byte for byte."""

from __future__ import annotations

import gc
import json
import sys

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import jsonpatch
import jsonpointer
import pytest

from hypothesis import assume, given
from hypothesis import strategies as st

from ipistate import (
    Environment,
    call_tool,
    decode,
    diff,
    encode,
    freeze,
    identical,
    thaw,
)
from ipistate.errors import EncodeError, json_path
from ipistate.kernel import MAX_DEPTH, JsonArray, JsonObject, JsonValue, render
from ipistate.kernel.change import Change
from ipistate.kernel.diff import Count, Diff
from ipistate.testing import json_names, json_values, plain_json, scenarios, worlds
from ipistate.tools import RECORDS


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        (0, 1, 1.0, 0.0, -0.0, "1", "", 2**64, 10**4299, "\ud800", "x" * 90)
    ),
)
SMALL = st.lists(st.sampled_from((0, 1, 1.0, True, "a", {"a": 1}, {"a": True}, [1])))


def patched(before: JsonValue, patch: JsonArray) -> JsonValue:
    """Apply a patch with a library, after a way through text."""
    return freeze(jsonpatch.apply_patch(thaw(before), json.loads(encode(patch))))


def containers(
    value: dict[str, Any] | list[Any], path: tuple[int | str, ...] = ()
) -> Iterator[tuple[tuple[int | str, ...], dict[str, Any] | list[Any]]]:
    """Visit each container of plain data with its path."""
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    yield path, value
    for key, part in parts:
        if isinstance(part, dict | list):
            yield from containers(part, (*path, key))


@st.composite
def places(
    draw: st.DrawFn,
    kind: type | tuple[type, ...] = (dict, list),
) -> tuple[
    dict[str, Any] | list[Any], tuple[int | str, ...], dict[str, Any] | list[Any]
]:
    """Plain data and one container in it, with its path."""
    drawn = draw(st.one_of(plain_json(15, 20), st.dictionaries(json_names(), SMALL)))
    value = thaw(freeze(drawn))
    assume(isinstance(value, dict | list))
    found = [(p, c) for p, c in containers(value) if isinstance(c, kind)]
    assume(found)
    return value, *draw(st.sampled_from(found))


def edit(draw: Callable[..., Any], container: dict[str, Any] | list[Any]) -> None:
    """Change one container in place: members and elements come, go, change and move."""
    if isinstance(container, dict):
        name = draw(st.one_of(json_names(), st.sampled_from([*container, "new"])))
        moved = container.pop(name, None)
        if draw(st.booleans()):
            container[name] = draw(st.one_of(SCALARS, st.just(moved)))
        return
    at = draw(st.integers(0, len(container)))
    moved = container[at : at + 1]
    container[at : at + 1] = draw(st.sampled_from(([], [1, "new"], [None])))
    if draw(st.booleans()):
        container += moved


@st.composite
def edited(draw: st.DrawFn) -> tuple[JsonValue, JsonValue]:
    """A value and what several edits made of it, sharing nothing or what they can."""
    value, _, _ = draw(places())
    before = freeze(value)
    for _ in range(draw(st.integers(1, 4))):
        edit(draw, draw(st.sampled_from([c for _, c in containers(value)])))
    return before, freeze(value)


PAIRS = st.one_of(
    edited(),
    st.tuples(SMALL.map(freeze), SMALL.map(freeze)),
    st.tuples(json_values(), json_values()),
)


@given(PAIRS)
def test_the_patch_gives_the_other_value(
    pair: tuple[float | JsonArray | JsonObject | None, JsonValue],
) -> None:
    """Applied by a library, the patch gives the second value byte for byte."""
    before, after = pair

    assert encode(after) == encode(patched(before, diff(before, after).to_patch()))


@given(PAIRS)
def test_nothing_is_found_in_identical_values_only(
    pair: tuple[JsonValue, JsonValue],
) -> None:
    """A diff is false if the values are identical, and true if they are not."""
    before, after = pair

    assert identical(before, after) is not bool(diff(before, after))
    assert () == diff(before, decode(encode(before))).operations
    assert () == diff(before, before).operations


@given(PAIRS)
def test_operations_know_what_was_there(pair: tuple[JsonValue, JsonValue]) -> None:
    """Each operation has the value that stood at its path just before it."""
    before, after = pair
    document = thaw(before)
    for one in diff(before, after).operations:
        assert one.op in {"add", "remove", "replace"}
        if one.op != "add":
            there = jsonpointer.resolve_pointer(document, one.pointer)
            assert encode(freeze(there)) == encode(one.old)
        patch = json.loads(encode(Diff((one,)).to_patch()))
        document = jsonpatch.apply_patch(document, patch)


@given(st.data())
def test_worlds_of_each_domain(data: st.DataObject) -> None:
    """Two worlds of a domain, and the worlds before and after each call."""
    records = RECORDS[data.draw(st.sampled_from(sorted(RECORDS)))]
    one, other = data.draw(worlds(records)), data.draw(worlds(records))
    scenario = data.draw(scenarios(records))
    steps = [one, other, scenario.environment]
    steps += [step.environment for step in scenario.run()]
    for before, after in pairwise(steps):
        found = diff(before, after)

        assert after.to_json() == encode(patched(before.document, found.to_patch()))
        assert {one.path[0] for one in found.operations} == {*found.counts()}


@given(places(), SCALARS)
def test_one_changed_leaf_is_one_operation(
    place: tuple[
        dict[str, Any] | list[Any], tuple[int | str, ...], dict[str, Any] | list[Any]
    ],
    new: float | str | None,
) -> None:
    """A value that is exchanged for a scalar is one ``replace`` with its path."""
    value, path, changed = place
    container: Any = changed
    assume(len(container))
    before = freeze(value)
    key = [*container][-1] if isinstance(container, dict) else len(container) // 2
    old = freeze(container[key])
    assume(not identical(old, freeze(new)))
    container[key] = new
    (found,) = diff(before, freeze(value)).operations

    assert ("replace", (*path, key)) == (found.op, found.path)
    assert (encode(freeze(new)), encode(old)) == (
        encode(found.value),
        encode(found.old),
    )


@given(places(dict), json_names(), plain_json(3, 20))
def test_one_new_member_is_one_operation(
    place: tuple[dict[str, Any] | list[Any], tuple[int | str, ...], dict[str, Any]],
    name: str,
    new: Any,
) -> None:
    """A member that is added last is one ``add``."""
    value, path, container = place
    assume(name not in container)
    before = freeze(value)
    container[name] = new
    (found,) = diff(before, freeze(value)).operations

    assert ("add", (*path, name)) == (found.op, found.path)
    assert encode(freeze(new)) == encode(found.value)


@given(places(dict), st.data())
def test_one_member_less_is_one_operation(
    place: tuple[dict[str, Any] | list[Any], tuple[int | str, ...], dict[str, Any]],
    data: st.DataObject,
) -> None:
    """A member that is gone is one ``remove``, wherever it stood."""
    value, path, container = place
    assume(container)
    before = freeze(value)
    name = data.draw(st.sampled_from([*container]))
    old = container.pop(name)
    (found,) = diff(before, freeze(value)).operations

    assert ("remove", (*path, name)) == (found.op, found.path)
    assert (None, encode(freeze(old))) == (found.value, encode(found.old))


@given(places(list), plain_json(3, 20), st.data())
def test_one_new_element_is_one_operation(
    place: tuple[dict[str, Any] | list[Any], tuple[int | str, ...], list[Any]],
    new: Any,
    data: st.DataObject,
) -> None:
    """An element that is inserted anywhere, or appended, is one ``add``."""
    value, path, container = place
    before = freeze(value)
    container.insert(data.draw(st.integers(0, len(container))), new)
    (found,) = diff(before, freeze(value)).operations

    assert ("add", path) == (found.op, found.path[:-1])
    assert encode(freeze(new)) == encode(found.value)


@given(places(list), st.data())
def test_one_element_less_is_one_operation(
    place: tuple[dict[str, Any] | list[Any], tuple[int | str, ...], list[Any]],
    data: st.DataObject,
) -> None:
    """An element that is gone is one ``remove``."""
    value, path, container = place
    assume(container)
    before = freeze(value)
    old = container.pop(data.draw(st.integers(0, len(container) - 1)))
    (found,) = diff(before, freeze(value)).operations

    assert ("remove", path) == (found.op, found.path[:-1])
    assert encode(freeze(old)) == encode(found.old)


def clinic(rows: int) -> Environment:
    """Build a world with many rows."""
    return Environment.of(
        {
            "patients": {f"P-{n}": {"name": "A", "seen": [1, 2]} for n in range(rows)},
            "messages": [{"from": "a", "body": "b"} for _ in range(rows)],
            "appointments": {f"A-{n}": {"status": "open"} for n in range(rows)},
        }
    )


CALLS = {
    "update_patient_chart": {"patient_id": "P-3", "notes": "Seen."},
    "send_message": {"to": "a", "subject": "b", "body": "c"},
    "schedule_appointment": {
        "patient_id": "P-1",
        "date": "2026-12-01",
        "time": "09:00",
        "reason": "x",
    },
}


def calls_during(work: Callable[..., Diff]) -> int:
    """Count the functions of Python and C that run."""
    count = 0

    def counted(_frame: object, event: str, _function: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    # A garbage collection runs callbacks of others, which would be counted.
    gc.disable()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


@pytest.mark.parametrize(("name", "arguments"), CALLS.items(), ids=CALLS)
def test_shared_parts_are_skipped(name: str, arguments: dict[str, str]) -> None:
    """Nothing is looked into that both worlds share: ever more rows cost no call more."""

    def cost(rows: int) -> int:
        before = clinic(rows)
        after = call_tool(before, name, arguments).environment
        (found,) = diff(before, after).operations
        assert found.op in {"add", "replace"}
        return calls_during(lambda: diff(before, after))

    assert cost(10) == cost(1000) < 100
    unshared = decode(clinic(1000).to_json())
    assert calls_during(lambda: diff(clinic(1000).document, unshared)) > 10_000


def test_equal_worlds_cost_nothing() -> None:
    """The same world, or one of the same document, is not looked into at all."""
    world = clinic(1000)

    assert calls_during(lambda: diff(world, Environment(world.document))) < 20


def tower(top: float, inside: Callable[..., Any]) -> JsonValue:
    """Nest a value as deep as values can be."""
    for level in range(MAX_DEPTH):
        top = inside(level, top)
    return freeze(top)


TOWERS = {
    "objects": lambda _, top: {"in": top},
    "arrays": lambda _, top: [top],
    "both": lambda level, top: [top] if level % 2 else {"in": top},
    "wide": lambda level, top: [level, top, level],
    "moving": lambda level, top: [level, top] if level % 2 else {"a": 1, "in": top},
}


def with_frames(left: int, work: Callable[..., Diff]) -> Diff:
    """Do work when only so many frames are left before the limit of recursion."""
    depth = 1
    while True:
        try:
            sys._getframe(depth)
        except ValueError:
            break
        depth += 1
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + left)
    try:
        return work()
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize("inside", TOWERS.values(), ids=TOWERS)
def test_deep_values(inside: Callable[..., Any]) -> None:
    """The deepest values are compared in a few frames, and their patch can be written."""
    before, after = tower(1, inside), tower(1.0, inside)
    found = with_frames(40, lambda: diff(before, after))
    (one,) = found.operations

    assert (MAX_DEPTH, 1, 1.0) == (len(one.path), one.old, one.value)
    assert encode(after) == encode(patched(before, found.to_patch()))


def test_repeated_elements_are_no_trap() -> None:
    """Long arrays of few different elements are compared in one pass, not in n squared."""
    before = JsonArray([n % 3 for n in range(20_000)])
    after = freeze([9, *[(n + n // 50) % 3 for n in range(20_000)]])

    assert calls_during(lambda: diff(before, after)) < 50 * 20_000
    assert encode(after) == encode(patched(before, diff(before, after).to_patch()))


@pytest.mark.parametrize(
    ("before", "after", "operations"),
    [
        ("x", {"a": 1}, [("replace", (), {"a": 1}, "x")]),
        ({}, [], [("replace", (), [], {})]),
        ({"a": 1}, {"a": True}, [("replace", ("a",), True, 1)]),
        ({"a": 0.0}, {"a": -0.0}, [("replace", ("a",), -0.0, 0.0)]),
        ({}, {"": 1}, [("add", ("",), 1, None)]),
        ({"a": None}, {}, [("remove", ("a",), None, None)]),
        (
            {"a": 1, "b": 2},
            {"b": 2, "a": 1},
            [("remove", ("a",), None, 1), ("add", ("a",), 1, None)],
        ),
        (
            {"a": {"x": 1, "y": [2]}},
            {"a": {"y": [3], "x": 1}},
            [
                ("remove", ("a", "x"), None, 1),
                ("replace", ("a", "y", 0), 3, 2),
                ("add", ("a", "x"), 1, None),
            ],
        ),
        (
            {"a": {"x": 1, "y": 2, "z": 3}},
            {"a": {"z": 3, "x": 1, "y": 2}},
            [("replace", ("a",), {"z": 3, "x": 1, "y": 2}, {"x": 1, "y": 2, "z": 3})],
        ),
        (
            [1, 2, 3, 4, 5],
            [2, 3, 9, 5, 6],
            [
                ("remove", (0,), None, 1),
                ("replace", (2,), 9, 4),
                ("add", (4,), 6, None),
            ],
        ),
        (
            [1, 2, 3, 4],
            [1, 4],
            [("remove", (2,), None, 3), ("remove", (1,), None, 2)],
        ),
        (
            ["x", "u", "x", "v", "x"],
            ["u", "x", "v", "x"],
            [("remove", (0,), None, "x")],
        ),
        (
            [{"id": 1, "n": 1}, {"id": 2, "n": 1}, {"id": 3, "n": 1}],
            [{"id": 1, "n": 2}, {"id": 2, "n": 1}, {"id": 3, "n": 2}],
            [("replace", (0, "n"), 2, 1), ("replace", (2, "n"), 2, 1)],
        ),
    ],
)
def test_operations(
    before: Any,
    after: dict[str, Any] | list[Any],
    operations: list[tuple[Any, tuple[int | str, ...], Any, Any]],
) -> None:
    """The smallest cases, each with its operations."""
    found = diff(freeze(before), freeze(after))
    expected = [Change(op, path, freeze(v), freeze(o)) for op, path, v, o in operations]

    assert render(freeze([[*one.path, one.value, one.old] for one in expected])) == (
        render(freeze([[*one.path, one.value, one.old] for one in found.operations]))
    )
    assert [one.op for one in expected] == [one.op for one in found.operations]


@pytest.mark.parametrize(
    ("name", "pointer"),
    [
        ("", "/"),
        ("a/b", "/a~1b"),
        ("m~n", "/m~0n"),
        ("~1", "/~01"),
        ("-", "/-"),
        ("0", "/0"),
        ("01", "/01"),
        (" ", "/ "),
        ("é\ud800", "/é\ud800"),
    ],
)
def test_pointers(name: str, pointer: str) -> None:
    """Names are escaped as RFC 6901 says, and what looks like an index is a name."""
    before, after = (
        freeze({"a": 1, name: {"x": [1]}}),
        freeze({"a": 1, name: {"x": []}}),
    )
    found = diff(before, after)

    assert f"{pointer}/x/0" == found.operations[0].pointer
    assert encode(after) == encode(patched(before, found.to_patch()))


def test_environments_and_plain_data() -> None:
    """Worlds are compared by their documents; plain data is frozen, or refused."""
    before, after = Environment.of({"a": {}}), Environment.of({"a": {"b": 1}})

    assert diff(before.document, after.document) == diff(before, after)
    assert diff(before, after) == diff({"a": {}}, {"a": {"b": 1}})  # type: ignore[arg-type]
    with pytest.raises(EncodeError) as caught:
        diff({}, {"a": {1, 2}})  # type: ignore[arg-type]
    assert "$.a" == caught.value.path


LONG = "Patient reports mild pain after exercise. " * 5


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        (
            {"patients": {"P-1": {"age": 41}}},
            {"patients": {"P-1": {"age": 42}}},
            ['~ $.patients["P-1"].age: 41 -> 42'],
        ),
        (
            {"messages": [], "x": [1]},
            {"messages": [{"to": "é"}]},
            ["- $.x: [1]", '+ $.messages[0]: {"to":"é"}'],
        ),
        (1, None, ["~ $: 1 -> null"]),
        (
            {"notes": LONG},
            {"notes": f"{LONG}\nSeen."},
            ['~ $.notes: …"ain after exercise. " -> …"ain after exercise. \\nSeen."'],
        ),
        (
            {"a": f"{'x' * 30}1{'y' * 80}"},
            {"a": f"{'x' * 30}2{'y' * 80}"},
            [f'~ $.a: "{"x" * 30}1{"y" * 29}"… -> "{"x" * 30}2{"y" * 29}"…'],
        ),
        (
            {"a": "x" * 70},
            {"a": ["y" * 70]},
            [f'~ $.a: "{"x" * 60}"… -> ["{"y" * 58}…'],
        ),
        (
            {"a": "b"},
            {"a": "\x1b\x7f\x9b\u202e"},
            [r'~ $.a: "b" -> "\u001b\x7f\x9b\u202e"'],
        ),
        ({"a": 1}, {"a": "\ud800"}, [r'~ $.a: 1 -> "\ud800"']),
    ],
)
def test_lines(
    before: int | dict[str, Any], after: dict[str, Any] | None, lines: list[str]
) -> None:
    """A line for each operation: what happened, where, and both values in short."""
    assert lines == [*diff(freeze(before), freeze(after)).lines()]


@given(PAIRS)
def test_lines_are_bounded_and_printable(pair: tuple[JsonValue, JsonValue]) -> None:
    """Whatever a world holds, lines have no control characters and show a beginning."""
    found = diff(*pair)
    for line, one in zip(found.lines(), found.operations, strict=True):
        assert line.isprintable()
        assert len(line) < len(json_path(one.path)) + 1000


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        ({"a": {}}, {"a": {}}, {}),
        ({"a": {"x": 1}}, {"a": {"x": 1, "y": 2}}, {"a": Count(added=1)}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2}}, {"a": Count(removed=1)}),
        (
            {"a": {"x": {"m": 1, "n": 1}, "y": 1}},
            {"a": {"x": {"m": 2, "o": 1}, "y": 2}},
            {"a": Count(changed=2)},
        ),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}, {"a": Count(changed=1)}),
        ({"a": [1, 2, 3, 4, 5]}, {"a": [1, 4]}, {"a": Count(removed=3)}),
        ({"a": [1, 2]}, {"a": [2, 3, 4]}, {"a": Count(removed=1, added=2)}),
        (
            {"a": [1, 2, 3, "K"]},
            {"a": ["K", "x"]},
            {"a": Count(removed=3, added=1)},
        ),
        ({"a": {}}, {"a": {"x": {"m": 1, "n": 2}}}, {"a": Count(added=1)}),
        ({"a": 1}, {"a": 2}, {"a": Count(changed=1)}),
        ({"a": {}}, {"a": []}, {"a": Count(changed=1)}),
        ({"b": {}}, {"b": {}, "a": {"x": 1, "y": 2}}, {"a": Count(added=2)}),
        ({"b": 1, "a": [1, 2, 3]}, {"b": 1}, {"a": Count(removed=3)}),
        ({"b": "text", "c": {}}, {}, {"b": Count(removed=1), "c": Count(removed=1)}),
        ({"a": {"x": 1}, "b": 1}, {"b": 1, "a": {"x": 1}}, {"a": Count(changed=1)}),
        ([{"x": 1}], [{"x": 2}, 3], {0: Count(changed=1), 1: Count(added=1)}),
        (1, {"a": {"x": 1}}, {}),
    ],
)
def test_counts(
    before: Any,
    after: dict[str, Any] | list[int | dict[str, int]],
    counts: dict[int | str, Count],
) -> None:
    """Entries are counted by collection: a row that changed twice is one changed row."""
    assert counts == diff(freeze(before), freeze(after)).counts()


@pytest.mark.parametrize(
    ("old", "new"),
    [({"id": 1}, {"zz": 9}), ({"a": 1, "b": 2}, {}), ({}, {"a": 1, "b": 2})],
)
def test_another_record_in_a_place_is_one_operation(
    old: dict[str, int], new: dict[str, int]
) -> None:
    """A record of which no member stays is replaced, in an array or in a table."""
    for holder in (lambda row: {"e": [row]}, lambda row: {"e": {"x": row}}):
        found = diff(freeze(holder(old)), freeze(holder(new)))

        assert [one.op for one in found.operations] == ["replace"]


@given(json_values(), json_values())
def test_d5_a_printed_diff_is_its_lines(before: JsonValue, after: JsonValue) -> None:
    """D5: printing shows a line for each change; the representation is bounded."""
    found = diff(before, after)

    assert str(found) == ("\n".join(found.lines()) or "no difference")
    assert bool(found) == (str(found) != "no difference")
    assert all(len(repr(one)) <= 200 for one in (found, *found.operations))
    assert repr(found).isprintable()


def test_d5_a_diff_is_shown_by_its_counts() -> None:
    """D5: the representation counts entries by collection, as ``counts`` does."""
    before = JsonObject({"a": {"x": 1, "y": 2}, "b": [1]})
    after = JsonObject({"a": {"x": 2}, "b": [1, 2, 3]})

    assert "Diff(0 operations)" == repr(diff(before, before))
    assert "Diff(1 operation)" == repr(diff(1, 2))
    assert "Diff(4 operations, a: 1 removed, 1 changed, b: 2 added)" == repr(
        diff(before, after)
    )


def test_d5_a_diff_in_a_notebook() -> None:
    """D5: a notebook shows place, old and new value of each change, escaped."""
    page = diff(
        JsonObject({"a": "<b>", "b": 1}), JsonObject({"a": "</td>", "c": None})
    )._repr_html_()

    assert "<td>$.a</td><td>&quot;&lt;b&gt;&quot;</td>" in page
    assert "<td>&quot;&lt;/td&gt;&quot;</td>" in page
    assert "<td>remove</td><td>$.b</td><td>1</td><td></td>" in page
    assert "<td>add</td><td>$.c</td><td></td><td>null</td>" in page
