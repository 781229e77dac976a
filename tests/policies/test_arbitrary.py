"""The random policy: seeded, within the schemas, and never without an end."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from documents import at
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ipistate.generate import builtin
from ipistate.kernel import MAX_DEPTH, JsonObject, JsonValue, depth
from ipistate.kernel.codec import decode
from ipistate.policies import RandomPolicy
from ipistate.policies.arbitrary import MOST_CALLS
from ipistate.scoring.task import Task
from ipistate.scoring.trace_reading import calls_of_items
from ipistate.scoring.traces import read_arguments
from ipistate.testing import json_values
from ipistate.tools import TOOLS


ROWS = builtin.rows()
DRAWN = b'{"candidate_id": "Calder", "status": "Carry e-mail an"}\n'
SCALARS = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer"},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "null"},
        {"type": ["number", "string"]},
        {"const": {"a": [1]}},
        {"enum": ["x", 2, None]},
    ]
)
SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        inner.map(lambda one: {"type": "array", "items": one}),
        st.dictionaries(st.text(max_size=5), inner, max_size=3).map(
            lambda named: {"type": "object", "properties": named}
        ),
    ),
    max_leaves=3,
)


def asked(text: str) -> list[JsonObject]:
    """Return a conversation of one message."""
    return [JsonObject({"role": "user", "content": text})]


def tool(schema: dict[str, Any]) -> JsonObject:
    """Return a tool with one parameter, which is required."""
    parameters = {"type": "object", "properties": {"one": schema}, "required": ["one"]}
    return JsonObject({"type": "function", "name": "try", "parameters": parameters})


def first(
    seed: int, conversation: list[JsonObject], tools: list[JsonObject]
) -> JsonObject:
    """Return the first item that a random policy answers."""
    return asyncio.run(RandomPolicy(seed).respond(conversation, tools)).items[0]


@given(st.integers(), st.text(), SCHEMAS)
def test_arguments_fit_their_schema(
    seed: int, text: str, schema: dict[str, Any]
) -> None:
    """What is drawn for a schema is valid under it."""
    definition: Any = tool(schema)
    call: Any = first(seed, asked(text), [definition])

    Draft202012Validator(dict(definition["parameters"])).validate(
        decode(call["arguments"])
    )


@given(st.integers(), json_values())
def test_a_schema_that_is_none_gets_some_call(seed: int, schema: JsonValue) -> None:
    """Whatever a tool says about its parameters, its call has an object."""
    assume(depth(schema) < MAX_DEPTH - 10)  # it stands in a definition, that in a row
    definition = JsonObject({"name": "try", "parameters": schema})
    call: Any = first(seed, asked("Try."), [definition])

    assert "try" == call["name"]
    assert isinstance(decode(call["arguments"]), JsonObject)


@pytest.mark.parametrize("task", ROWS, ids=lambda task: task.domain)
def test_episodes_end(
    task: Task, play: Callable[..., Coroutine[Any, Any, tuple[list[JsonObject], int]]]
) -> None:
    """At least one call is made, at most so many, each of a tool that is offered."""
    offered = {at(one, "name") for one in at(task.responses_create_params, "tools")}
    for seed in range(5):
        items, start = asyncio.run(play(RandomPolicy(seed), task))
        calls = calls_of_items(items[start:])

        assert 1 <= len(calls) <= MOST_CALLS
        assert {one.name for one in calls} <= offered


def test_seeds_are_different_agents(
    play: Callable[..., Coroutine[Any, Any, tuple[list[JsonObject], int]]],
) -> None:
    """Another seed makes other calls, the same seed the same ones."""
    episodes: Any = [
        asyncio.run(play(RandomPolicy(seed), ROWS[0]))[0] for seed in (1, 2, 3, 1)
    ]

    assert episodes[0] == episodes[3]
    assert episodes[0] != episodes[1] != episodes[2]


def test_ids_are_taken_from_the_conversation() -> None:
    """An id parameter gets an id that was mentioned, an address an address."""
    said = asked("See P-2041 and write to desk@clinic.example by 2025-03-01, please.")
    definition: Any = TOOLS["send_message"].parameters
    names = ("case_id", "recipient")
    schema = {
        "type": "object",
        "properties": {n: definition["properties"][n] for n in names},
    }
    tools = [
        JsonObject({"name": "send", "parameters": {**schema, "required": [*names]}})
    ]

    drawn = [
        read_arguments(at(first(seed, said, tools), "arguments")) for seed in range(9)
    ]

    assert {"P-2041"} == {one["case_id"] for one in drawn}
    assert {"desk@clinic.example"} == {one["recipient"] for one in drawn}


def test_without_tools_there_is_nothing_to_do() -> None:
    """Nobody calls what is not offered."""
    assert "message" == first(1, asked("Go."), [])["type"]


def test_draws_are_the_same_in_another_process() -> None:
    """Neither the hash seed nor anything else of a process decides."""
    code = (
        "import asyncio; from ipistate.generate import builtin\n"
        "from ipistate.agents import input_messages\nfrom ipistate.policies import RandomPolicy\n"
        "params = builtin.rows()[3].responses_create_params\n"
        "reply = RandomPolicy(5).respond(input_messages(params), params['tools'])\n"
        "print(asyncio.run(reply).items[0]['arguments'])"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert {DRAWN} == told


def test_long_hostile_texts_are_read_in_linear_time() -> None:
    """A reply of a megabyte that fits no word is passed over."""
    said = asked("a-" + "1-" * 500_000 + "@")

    assert "none" in str(first(1, said, [tool({"type": "string"})])["arguments"])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: {"type": "array", "items": inner},
        lambda inner: {"type": "object", "properties": {"a": inner}, "required": ["a"]},
    ],
    ids=["arrays", "objects"],
)
def test_schemas_without_a_bottom_end(wrap: Callable[..., dict[str, Any]]) -> None:
    """A schema that nests deeper than anybody writes is cut off, not followed."""
    schema = {"type": "string"}
    for _ in range(40):
        schema = wrap(schema)
    call: Any = first(1, asked("Dig."), [tool(schema)])

    assert 1 <= len(call["arguments"]) < 200
