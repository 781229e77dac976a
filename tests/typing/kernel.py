"""What type checkers infer for users of the kernel; checked by mypy and pyright."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_type

from ipistate import (
    TOOLS,
    Change,
    DecodeError,
    Diff,
    Environment,
    Injection,
    IPICheckpointState,
    JsonArray,
    JsonObject,
    JsonValue,
    SchemaError,
    Task,
    Tool,
    ToolCall,
    ToolError,
    Transition,
    UnknownTool,
    Verdict,
    call_tool,
    decode,
    diff,
    encode,
    freeze,
    identical,
    render,
    replay,
    verify,
)
from ipistate.errors import Problem
from ipistate.kernel.diff import Count
from ipistate.tools.healthcare import Patient


def values(data: bytes) -> None:
    """Values go in as anything and come out narrowed by ``isinstance`` only."""
    value = decode(data)
    assert_type(value, JsonValue)
    assert_type(encode(value), bytes)
    assert_type(render(value), str)
    assert_type(identical(value, None), bool)
    assert_type(freeze({"a": 1}), JsonValue)
    if isinstance(value, JsonObject):
        assert_type(value["a"], JsonValue)
        assert_type(value | {"b": 1}, JsonObject)
        assert_type(value.get("a"), JsonValue)
    if isinstance(value, JsonArray):
        assert_type(value[0], JsonValue)
        assert_type(value[1:], JsonArray)
        assert_type(value * 2, JsonArray)


def transitions(world: Environment, calls: Iterator[ToolCall]) -> None:
    """A call gives a transition; its error is optional."""
    done = call_tool(world, "send_email", {"recipient": "a@b.test"})
    assert_type(done, Transition)
    assert_type(done.environment, Environment)
    assert_type(done.output, str)
    assert_type(done.error, ToolError | None)
    assert_type(replay(world, calls), Iterator[Transition])
    assert_type(TOOLS, Mapping[str, Tool])
    assert_type(TOOLS["send_email"].parameters, JsonObject)
    assert_type(world.document, JsonObject)
    assert_type(world.to_json(), bytes)


def reading(world: Environment) -> None:
    """A world reads like a dictionary; ``at`` gives the type that it is asked for."""
    assert_type(world["patients"], JsonValue)
    assert_type("patients" in world, bool)
    assert_type(len(world), int)
    for collection in world:
        assert_type(collection, str)
    assert_type(world.at("patients", "P-7"), JsonValue)
    assert_type(world.at("patients", "P-7", "name", of=str), str)
    assert_type(world.at("patients", "P-7", "age", of=int), int)
    assert_type(world.at("patients", "P-7", "weight", of=float), float)
    assert_type(world.at("patients", "P-7", "insured", of=bool), bool)
    assert_type(world.at("messages", of=JsonArray), JsonArray)
    for patient_id in world.at("patients", of=JsonObject):
        assert_type(patient_id, str)
        name: str = world.at("patients", patient_id, "name", of=str).strip()
        assert_type(name, str)


def refusals(world: Environment) -> None:
    """An unknown tool is an error of its own, with the name that was meant."""
    error = call_tool(world, "send_mail", {}).error
    if error is not None:
        assert_type(error.code, str)
    if isinstance(error, UnknownTool):
        assert_type(error.suggestion, str | None)
        assert_type(error.known, tuple[str, ...])


def differences(before: Environment, after: Environment) -> None:
    """Worlds and their documents are compared alike."""
    found = diff(before, after)
    assert_type(found, Diff)
    assert_type(diff(before.document, None), Diff)
    assert_type(found.to_patch(), JsonArray)
    assert_type(found.lines(), tuple[str, ...])
    assert_type(str(found), str)
    assert_type(found.counts(), dict[str | int, Count])
    for one in found.operations:
        assert_type(one, Change)
        assert_type(one.path, tuple[str | int, ...])
        assert_type(one.old, JsonValue)
        assert_type(one.texts, tuple[str, str])


def states(text: str) -> None:
    """Constructors keep the class they are called on."""
    assert_type(Environment.from_json(text), Environment)
    assert_type(Environment.from_json(text, repeated="refuse"), Environment)
    assert_type(Environment.of({"a": [1]}), Environment)
    assert_type(IPICheckpointState.from_json(text), IPICheckpointState)
    assert_type(IPICheckpointState(Environment.of({})).to_document(), JsonObject)
    assert_type(Task.from_json(text).environment, Environment)


def verdicts(document: JsonObject) -> None:
    """A verdict has rewards and, if the injection was followed, the call."""
    verdict = verify([document], Injection.from_document(document))
    assert_type(verdict, Verdict)
    assert_type(verdict.injection_followed, bool)
    assert_type(verdict.matched_tool, str | None)
    assert_type(verdict.matched_args, JsonObject | None)
    assert_type(verdict.reward, float)


def rows(world: Environment) -> None:
    """A typed table gives rows of the class that it was asked for."""
    table = Patient.table(world, "patients")
    assert_type(table, dict[str, Patient])
    assert_type(table["P-1"].conditions, tuple[str, ...])
    assert_type(table["P-1"].dob, str | None)
    assert_type(Patient.from_document({}).to_document(), JsonObject)


def errors() -> None:
    """Errors carry a code and a path, and schema errors all of their problems."""
    try:
        decode(b"")
    except DecodeError as error:
        assert_type(error.code, str)
        assert_type(error.path, str)
        assert_type(error.preview, str | None)
    except SchemaError as error:
        assert_type(error.problems, tuple[Problem, ...])
