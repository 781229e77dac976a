"""Strict arguments: what the schema does not allow is refused, everything else is as ever."""

from __future__ import annotations

import json
import pickle

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ipistate import TOOLS, Environment, SchemaError, Session, call_tool, freeze, replay
from ipistate.generate.builtin import rows, trajectories
from ipistate.kernel import MAX_DEPTH, JsonObject, JsonValue
from ipistate.testing import LAWS, plain_json, scenarios
from ipistate.testing.scenario import Scenario
from ipistate.tools import RECORDS, table_of, tool, transition
from ipistate.tools.registry import Tool
from ipistate.tools.strict import (
    INVALID_ARGUMENTS,
    SchemaCheck,
    Violation,
    find_violation,
    strict,
)


STRICT = strict()
WORLD = Environment.of(
    {
        "products": {"P-1": {"product_id": "P-1", "name": "Tea", "stock_quantity": 3}},
        "patients": {"P-1": {"patient_id": "P-1", "chart_notes": "old"}},
        "warehouse_inventories": {"I-1": {"inventory_id": "I-1", "quantity": 3}},
        "messages": [],
    }
)
ENTRY = {"case_id": "C-1", "date": "2026-11-30", "description": "Review"}


def violation(schema: bool | dict[str, Any], **arguments: Any) -> str | None:
    """Return the first violation of one parameter's schema as text."""
    found = SchemaCheck(JsonObject({"properties": {"x": schema}})).violation(
        JsonObject(arguments)
    )
    return None if found is None else str(found)


def output(
    name: str,
    arguments: dict[str, Any] | None,
    tools: Mapping[str, Tool] = STRICT,
) -> str:
    """Return the reply to a call."""
    return call_tool(WORLD, name, arguments, tools=tools).output


# What is refused, and with which words.


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        (
            "add_billing_entry",
            {**ENTRY, "hours": "2", "rate": 3},
            "$.hours: expected a number, not a string",
        ),
        (
            "update_product_stock",
            {"product_id": "P-1", "stock_quantity": "many"},
            "$.stock_quantity: expected a number, not a string",
        ),
        (
            "update_product_stock",
            {"product_id": 1, "stock_quantity": True},
            "$.product_id: expected a string, not a number",
        ),
        (
            "send_message",
            {"recipients": ["a@x.example", "b@x.example", None]},
            "$.recipients[2]: expected a string, not null",
        ),
        (
            "send_message",
            {"recipients": '["a@x.example"]'},
            "$.recipients: expected an array, not a string",
        ),
        (
            "add_billing_entry",
            {**ENTRY, "hours": 2, "rate": 3, "billable": 1},
            "$.billable: expected a boolean, not a number",
        ),
        (
            "update_patient_chart",
            {"patient_id": "P-1", "notes": {"text": "x"}},
            "$.notes: expected a string, not an object",
        ),
        (
            "send_offer",
            {"candidate_id": "", "position": "", "start_date": "", "salary": [1]},
            "$.salary: expected a number or a string, not an array",
        ),
    ],
)
def test_refused(name: str, arguments: dict[str, Any], message: str) -> None:
    """The reply names the path, what is expected and what came; nothing changes."""
    done = call_tool(WORLD, name, arguments, tools=STRICT)

    assert f"Error executing tool '{name}' ({INVALID_ARGUMENTS}): {message}" == (
        done.output
    )
    assert done.error is not None
    assert (INVALID_ARGUMENTS, message) == (done.error.type, done.error.message)
    assert WORLD is done.environment


@pytest.mark.parametrize("notes", [{}, {"notes": None}])
def test_missing_and_null_are_left_to_binding(notes: dict[str, None]) -> None:
    """A missing argument is refused in the words of the reference; null is missing."""
    arguments = {"patient_id": "P-1", **notes}

    assert output("update_patient_chart", arguments, TOOLS) == (
        output("update_patient_chart", arguments)
    )
    assert "missing 1 required positional argument: 'notes'" in (
        output("update_patient_chart", arguments)
    )


def test_what_would_be_refused() -> None:
    """It can be asked without a call; what binding refuses is not counted."""
    one = TOOLS["update_patient_chart"]
    asked: list[dict[str, Any]] = [
        {"patient_id": "P-1", "notes": 1},
        {"patient_id": 1},
        {"patient_id": None},
    ]

    assert [Violation("$.notes", "expected a string, not a number"), None, None] == [
        find_violation(one, JsonObject(arguments)) for arguments in asked
    ]


def test_an_empty_text_is_a_text() -> None:
    """It is what the model meant, so it is stored."""
    arguments = {"patient_id": "P-1", "notes": ""}

    assert call_tool(WORLD, "update_patient_chart", arguments) == (
        call_tool(WORLD, "update_patient_chart", arguments, tools=STRICT)
    )


def test_no_arguments_at_all() -> None:
    """Null in place of the object is refused as ever."""
    assert output("update_patient_chart", None, TOOLS) == (
        output("update_patient_chart", None)
    )


def test_null_optional_arguments_count_as_absent() -> None:
    """Their schema has no null, and yet they are accepted."""
    assert "Message sent to a@x.example." == output(
        "send_message", {"to": "a@x.example", "case_id": None}
    )


def test_ranges_are_not_the_schema_of_a_type() -> None:
    """A negative stock is a number; what it does shows in the world, not in the type."""
    arguments = {"inventory_id": "I-1", "adjustment": -50}

    assert output("adjust_warehouse_quantity", arguments, TOOLS) == (
        output("adjust_warehouse_quantity", arguments)
    )


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"type": "integer"}, 1.5, "expected an integer, not a number"),
        ({"type": ["string", "null"]}, 1, "expected a string or null, not a number"),
        ({"enum": ["a", 1, None]}, "b", 'expected one of "a", 1, null'),
        ({"const": [1, 2]}, 3, "expected [1, 2]"),
        ({"minimum": 1}, 0, "expected at least 1"),
        ({"maximum": 5}, 6, "expected at most 5"),
        ({"exclusiveMinimum": 0}, 0, "expected more than 0"),
        ({"exclusiveMaximum": 1.5}, 1.5, "expected less than 1.5"),
        ({"multipleOf": 5}, 7, "expected a multiple of 5"),
        ({"minLength": 1}, "", "expected a length of at least 1"),
        ({"maxLength": 1}, "ab", "expected a length of at most 1"),
        ({"minItems": 1}, [], "expected a length of at least 1"),
        ({"maxItems": 1}, [1, 2], "expected a length of at most 1"),
        ({"pattern": "^P-"}, "Q", 'expected a text with the pattern "^P-"'),
        ({"required": ["b", "a"]}, {"a": 1}, "the member 'b' is missing"),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"a": 1, "b\n": 2},
            "the member 'b\\n' is not allowed",
        ),
        (
            {"patternProperties": {"^a": {}}, "additionalProperties": False},
            {"b": 2},
            "the rule 'additionalProperties' of the schema is broken",
        ),
        (
            {"anyOf": [{"type": "string"}, {"minimum": 2}]},
            1,
            "the rule 'anyOf' of the schema is broken",
        ),
    ],
)
def test_words(schema: dict[str, Any], value: Any, message: str) -> None:
    """Every rule has its words; they do not repeat what came."""
    assert f"$.x: {message}" == violation(schema, x=value)


def test_excluded() -> None:
    """A schema that accepts nothing says so; the library does not tell where."""
    assert "$: the schema excludes a part of it" == violation(False, x=1)


def test_names_in_paths_are_bounded() -> None:
    """A model's own names are escaped and cut, in the path and in the message."""
    schema = {"additionalProperties": {"additionalProperties": False}}
    found = violation(schema, x={"é" * 1000: {"ü" * 1000: 1}})

    assert found is not None
    assert found.startswith('$.x["\\xe9\\xe9')
    assert len(found) < 800


def test_the_smallest_path_is_reported() -> None:
    """Not the first in the schema, not the first in the arguments."""
    schema = JsonObject(
        {"properties": {"b": {"type": "null"}, "a": {"items": {"type": "null"}}}}
    )
    many = [None] * 2 + [1] * 10
    found = SchemaCheck(schema).violation(JsonObject({"b": 1, "a": many}))

    assert Violation("$.a[2]", "expected null, not a number") == found


def test_of_two_rules_at_one_place_the_first_by_name() -> None:
    """So that the answer does not depend on the order of a schema."""
    for schema in (
        {"type": "string", "enum": ["a"]},
        {"enum": ["a"], "type": "string"},
    ):
        assert '$.x: expected one of "a"' == violation(schema, x=1)


def test_a_million_violations() -> None:
    """Not all of them are listed in order to choose one."""
    assert "$.x[0]: expected null, not a number" == violation(
        {"items": {"type": "null"}}, x=[1] * 1_000_000
    )


# What is accepted, and that nothing else changes.


@pytest.mark.parametrize("row", range(len(rows())))
@pytest.mark.parametrize("kind", ["benign", "compromised"])
def test_reference_trajectories(row: int, kind: str) -> None:
    """The built-in agents send nothing that strict arguments refuse."""
    calls = getattr(trajectories()[row], kind)
    world = rows()[row].environment

    assert [*replay(world, calls)] == [*replay(world, calls, tools=STRICT)]


def test_stored_rollouts(data: Path, proven: Counter[str]) -> None:
    """Nor do the calls of rollouts as an agent of the reference stores them."""
    path = data / "rollouts.jsonl"
    items = [
        item
        for line in path.read_text("utf-8").splitlines()
        for item in json.loads(line)["response"]["output"]
        if item["type"] == "function_call"
    ]
    for item in items:
        reply = output(item["name"], json.loads(item["arguments"]))
        assert INVALID_ARGUMENTS not in reply
        proven["calls of rollouts accepted by strict arguments"] += 1

    assert items


def test_schemas_of_task_rows(data: Path) -> None:
    """What the narrower schemas of a task row ask of a model, strict arguments accept."""
    path = data / "task_rows.jsonl"
    asked = {
        one["name"]: one["parameters"]["properties"]
        for line in path.read_text("utf-8").splitlines()
        for one in json.loads(line)["responses_create_params"]["tools"]
    }
    samples = {"string": "95,000 EUR", "integer": 4}
    for name, schemas in asked.items():
        arguments = {n: samples[schema["type"]] for n, schema in schemas.items()}
        check = SchemaCheck(TOOLS[name].parameters)
        assert None is check.violation(JsonObject(arguments))

    assert 15 < len(asked)


def test_recorded_good_calls(
    conformance: Callable[..., list[dict[str, Any]]], proven: Counter[str]
) -> None:
    """The arguments of every recorded call that is a good one are accepted."""
    for row in conformance("tools.jsonl"):
        if row["case"].startswith("happy"):
            world = Environment.of(row["environment_before"])
            done = call_tool(world, row["tool"], row["arguments"], tools=STRICT)
            assert done == call_tool(world, row["tool"], row["arguments"])
            proven["good calls accepted by strict arguments"] += 1


@given(
    scenario=st.sampled_from(sorted(RECORDS)).flatmap(
        lambda domain: scenarios(
            RECORDS[domain], {n: t for n, t in TOOLS.items() if domain in t.domains}
        )
    )
)
def test_refuse_or_do_the_same(scenario: Scenario) -> None:
    """A call is refused as invalid, or does exactly what it does without the option.

    It is refused exactly if the bound arguments are not what the schema says.
    """
    for call in scenario.calls:
        done = call_tool(scenario.environment, call.name, call.arguments, tools=STRICT)
        plain = scenario.step(scenario.environment, call)
        if done.error is None or done.error.type != INVALID_ARGUMENTS:
            assert plain == done
        else:
            assert scenario.environment is done.environment
            given_ones = {n: v for n, v in call.arguments.items() if v is not None}
            schema = scenario.tools[call.name].parameters
            assert not Draft202012Validator(schema).is_valid(given_ones)


@given(
    scenario=scenarios(
        RECORDS["legal"], {n: t for n, t in STRICT.items() if "legal" in t.domains}
    )
)
def test_laws(scenario: Scenario) -> None:
    """Strict tools keep every law that tools keep."""
    for law in LAWS:
        law(scenario)


@given(value=plain_json(4, MAX_DEPTH - 1))
def test_every_value_has_a_kind(value: Any) -> None:
    """Whatever a model sends, there is a name for what it is."""
    found = violation({"type": "boolean"}, x=value)

    assert (found is None) == isinstance(value, bool)


# The table.


def test_strict_twice_is_strict() -> None:
    """Checking again would only cost time."""
    again = strict(STRICT)

    assert all(again[name] is one for name, one in STRICT.items())


def test_only_the_checks_differ() -> None:
    """Names, schemas and functions are those of the tools that were given."""
    assert list(TOOLS) == list(STRICT)
    for name, one in STRICT.items():
        assert 1 == len(one.checks)
        assert TOOLS[name].run is one.run
        assert TOOLS[name].parameters is one.parameters


def test_built_in_schemas_are_schemas() -> None:
    """They are not looked at again when a table is made strict."""
    for one in TOOLS.values():
        Draft202012Validator.check_schema(one.parameters)


def nested(world: JsonObject, deep: JsonValue = None) -> tuple[JsonObject, str]:
    """Store a value and the objects around it."""
    return JsonObject({**world, "deep": {"a": {"b": deep}}}), "Stored."


def own(schema: dict[str, Any]) -> Mapping[str, Tool]:
    """Return a strict table with one tool, whose parameter has a schema."""
    return strict(table_of([tool(nested, "own", glossary={"deep": schema})]))


def test_a_tool_of_ones_own() -> None:
    """Its glossary is what is checked; a parameter without an entry takes anything."""
    tools = own({"type": "object"})

    assert "Stored." == output("nested", {"deep": {}}, tools)
    assert "$.deep: expected an object" in output("nested", {"deep": 1}, tools)
    anything = strict(table_of([tool(nested, "own")]))
    assert "Stored." == output("nested", {"deep": 1}, anything)


@pytest.mark.parametrize("arguments", [{"deep": 1}, {"deep": 1, "absent": None}])
def test_a_schema_of_no_object(arguments: dict[str, Any]) -> None:
    """A schema that all arguments break says so, whatever they were bound to."""
    one = tool(nested, "own")
    parameters = freeze({"type": "array"})
    odd = {"nested": type(one)(**{**fields(one), "parameters": parameters})}

    assert "$: expected an array, not an object" in output(
        "nested", arguments, strict(odd)
    )


def test_an_own_check_is_kept() -> None:
    """A tool may have checks already; they come first."""
    seen: list[Any] = []
    one = own({"type": "object"})["nested"]
    mine = {"nested": type(one)(**{**fields(one), "checks": (seen.append,)})}
    output("nested", {"deep": 1}, strict(mine))

    assert [{"deep": 1}] == seen


def fields(one: Tool) -> dict[str, Any]:
    """Return the arguments that make a tool."""
    names = ("name", "domains", "description", "parameters", "reads", "writes")
    more = ("run", "names", "required", "ignores_unknown")
    return {name: getattr(one, name) for name in (*names, *more)}


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "text"}, "$.properties.deep.type"),
        ({"minimum": "1"}, "$.properties.deep.minimum"),
        ({"pattern": "("}, "$.properties.deep.pattern"),
        (3, "$.properties.deep"),
    ],
)
def test_bad_schemas_are_refused_at_once(
    schema: int | dict[str, str], path: str
) -> None:
    """Not when a model calls the tool, which could do nothing about it."""
    one = tool(nested, "own")
    bad = freeze({"type": "object", "properties": {"deep": schema}})
    with pytest.raises(SchemaError, match="'nested'") as caught:
        strict({"nested": type(one)(**{**fields(one), "parameters": bad})})

    assert ("invalid_schema", path) == (caught.value.code, caught.value.path)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "https://schemas.example/deep.json"}, 1),
        ({"$ref": "#/nowhere"}, 1),
        ({"multipleOf": 0.5}, 10**400),
    ],
)
def test_schemas_that_fail(schema: dict[str, Any], value: int) -> None:
    """They refuse in our own words, and what they refer to is not fetched."""
    assert (
        "Error executing tool 'nested' (InvalidArguments): "
        "$: the tool's schema cannot be applied"
    ) == output("nested", {"deep": value}, own(schema))


def test_a_schema_may_refer_to_itself() -> None:
    """References inside the schema work."""
    one = tool(nested, "own")
    schema = {
        "properties": {"deep": {"$ref": "#/$defs/d"}},
        "$defs": {"d": {"const": 1}},
    }
    tools = strict(
        {"nested": type(one)(**{**fields(one), "parameters": freeze(schema)})}
    )

    assert "$.deep: expected 1" in output("nested", {"deep": 2}, tools)
    assert "Stored." == output("nested", {"deep": 1}, tools)


def test_the_depth_of_the_world_is_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A strict built-in tool is as fast as any; a tool of one's own is still measured."""
    walked: list[Any] = []
    monkeypatch.setattr(transition, "check_depth", walked.append)
    arguments = {"patient_id": "P-1", "notes": "new"}
    call_tool(WORLD, "update_patient_chart", arguments, tools=STRICT)

    assert [] == walked
    call_tool(WORLD, "nested", {}, tools=own({}))
    assert 1 == len(walked)


def test_too_deep_results_are_still_refused() -> None:
    """The option does not make room for deeper worlds."""
    deep = freeze([])
    for _ in range(MAX_DEPTH - 2):
        deep = freeze([deep])
    done = call_tool(WORLD, "nested", {"deep": deep}, tools=own({}))

    assert done.error is not None
    assert ("EncodeError", WORLD) == (done.error.type, done.environment)


def test_sessions_take_the_table() -> None:
    """A strict refusal is in the log with its reply, and takes no idempotency key."""
    arguments = {**ENTRY, "hours": "2", "rate": 3}
    session, step = Session(WORLD).once(
        "k", "add_billing_entry", arguments, tools=STRICT
    )

    assert step.error is not None
    assert INVALID_ARGUMENTS == step.error.type
    assert [None] == [one.key for one in session.log]


def test_a_strict_tool_goes_to_another_process() -> None:
    """It pickles, before and after its schema was compiled."""
    one = STRICT["update_product_stock"]
    for _ in range(2):
        copied = pickle.loads(pickle.dumps(one))
        assert one == copied
        assert "InvalidArguments" in output(
            one.name, {"product_id": 1, "stock_quantity": 1}, {one.name: copied}
        )
