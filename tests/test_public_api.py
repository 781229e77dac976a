"""The public names: there, sorted, documented and importable alone."""

from __future__ import annotations

import importlib
import importlib.resources
import inspect
import pickle
import pkgutil

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import attrs
import pytest

import ipistate

from ipistate import (
    Environment,
    Injection,
    ToolCall,
    ToolError,
    Transition,
    Verdict,
    call_tool,
)
from ipistate.scoring import WorldChange
from ipistate.testing import __all__ as kit


FIXED = [
    "JsonObject",
    "JsonValue",
    "freeze",
    "thaw",
    "decode",
    "encode",
    "render",
    "identical",
    "Environment",
    "ToolCall",
    "Transition",
    "ToolError",
    "call_tool",
    "replay",
    "TOOLS",
    "IPICheckpointState",
    "Injection",
    "Verdict",
    "verify",
    "aggregate",
    "Task",
    "IpiStateError",
    "DecodeError",
    "EncodeError",
    "SchemaError",
    "Session",
    "Step",
    "IdempotencyError",
    "SessionRangeError",
    "session_from_json",
    "session_to_json",
]

SIGNATURES = {
    "call_tool": ["environment", "name", "arguments", "tools"],
    "replay": ["environment", "calls", "tools"],
    "verify": [
        *("output_items", "injection", "required_tools", "incomplete_reason"),
        *("seed", "tools"),
    ],
    "assess": [
        *("calls", "injection", "required_tools", "seed"),
        *("incomplete_reason", "reference", "tools"),
    ],
    "resistance": ["effects"],
    "aggregate": ["tasks"],
    "decode": ["data"],
    "encode": ["value"],
    "render": ["value"],
    "freeze": ["value"],
    "thaw": ["value"],
    "identical": ["left", "right"],
    "session_from_json": ["data", "tools"],
    "session_to_json": ["session"],
}


def modules() -> Iterator[str]:
    """Yield the names of all modules of the package that need no extra."""
    for found in pkgutil.walk_packages(ipistate.__path__, "ipistate."):
        if found.name.split(".")[1] not in {"server", "cli", "demo"}:
            yield found.name


def test_fixed_names() -> None:
    """The names of the design are there."""
    assert set() == {*FIXED} - {*ipistate.__all__}


@pytest.mark.parametrize("name", ["ipistate", *modules()])
def test_all_is_sorted_and_true(name: str) -> None:
    """Where a module lists its public names they exist and are sorted."""
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", [])
    constants = sorted(one for one in listed if one.isupper())
    classes = sorted(one for one in listed if one[0].isupper() and not one.isupper())
    others = sorted(one for one in listed if one[0].islower())

    assert [*constants, *classes, *others] == [*listed]
    assert all(hasattr(module, one) for one in listed)


@pytest.mark.parametrize("name", ["ipistate", *modules()])
def test_every_module_says_what_it_is(name: str) -> None:
    """Each module has a docstring that begins with a sentence or a title."""
    assert str(importlib.import_module(name).__doc__ or "").strip()


@pytest.mark.parametrize("name", sorted({*ipistate.__all__} | {*kit}))
def test_public_callables_are_documented(name: str) -> None:
    """Each public class and function has a docstring."""
    one = getattr(ipistate, name, None) or getattr(ipistate.testing, name)
    if inspect.isclass(one) or inspect.isfunction(one):
        assert one.__doc__
        assert not one.__doc__.startswith("Method generated")


@pytest.mark.parametrize(("name", "expected"), SIGNATURES.items(), ids=SIGNATURES)
def test_signatures(name: str, expected: list[str]) -> None:
    """Public functions have the parameters of the design."""
    assert expected == [*inspect.signature(getattr(ipistate, name)).parameters]


def test_fields() -> None:
    """Public records have the fields of the design."""
    fields = {
        kind: [field.name for field in attrs.fields(kind)]
        for kind in (
            *(Environment, ToolCall, ToolError, Transition, Verdict),
            *(ipistate.Session, ipistate.Step),
        )
    }

    assert ["document"] == fields[Environment]
    assert ["name", "arguments"] == fields[ToolCall]
    assert ["type", "message"] == fields[ToolError]
    assert ["environment", "output", "error"] == fields[Transition]
    assert ["seed", "log", "tools"] == fields[ipistate.Session]
    assert ["call", "output", "environment", "error", "key"] == fields[ipistate.Step]
    assert [
        *("injection_followed", "matched_tool", "matched_args", "reward_safety"),
        *("reward_utility", "reward", "thinking_incomplete", "effects"),
    ] == fields[Verdict]


@pytest.mark.parametrize(
    "record",
    [
        Environment.of({"a": [1]}),
        ToolCall("send_email"),
        ToolError("TypeError", "no"),
        call_tool(Environment.of({}), "nope", {}).error,
        Transition(Environment.of({}), "text", ToolError("TypeError", "no")),
        ipistate.IPICheckpointState(Environment.of({"a": {"b": 1}})),
        ipistate.Session(Environment.of({"a": {"b": 1}})).step("nope"),
        ipistate.Step(ToolCall("nope"), "text", Environment.of({})),
        ipistate.kernel.diff(
            ipistate.JsonObject({"a": 1, "b": 2}), ipistate.JsonObject({"a": [1]})
        ),
        ipistate.Change("add", ("a", 0), None),
        Injection.from_document(
            dict.fromkeys(
                (
                    *("goal", "target_tool", "verification_type", "attack_strategy"),
                    *("attack_difficulty", "vector", "injection_text", "category"),
                ),
                "x",
            )
            | {"target_args": {"a": 1}}
        ),
    ],
    ids=lambda record: type(record).__name__,
)
def test_b31_records_are_frozen_hashable_and_picklable(record: Any) -> None:
    """B31: each record is frozen, equal to its pickled copy, and hashes alike."""
    back = pickle.loads(pickle.dumps(record))

    assert (record, hash(record)) == (back, hash(back))
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(record, attrs.fields(type(record))[0].name, None)
    assert not hasattr(record, "__dict__")


def test_d5_the_version_is_that_of_the_package() -> None:
    """D5: ``ipistate.__version__`` is what the installer says."""
    assert version("ipistate") == ipistate.__version__


LONG = "x" * 5_000 + "\x1b[2J"
BIG = ipistate.JsonObject({f"{LONG}{n}": [LONG] * 50 for n in range(50)})
BIG_WORLD = Environment(BIG)
BIG_INJECTION = Injection(
    goal=LONG,
    target_tool=LONG,
    target_args=BIG,
    verification_type=LONG,
    attack_strategy=LONG,
    attack_difficulty=LONG,
    vector=LONG,
    injection_text=LONG,
    category=LONG,
)
BIG_CHANGE = ipistate.Change("replace", (LONG,) * 50, BIG, BIG)
BIG_EFFECTS = ipistate.Effects(
    outcome="followed", changes=(WorldChange(call=1, tool=LONG, op="add", path=LONG),)
)
BIG_RECORDS = [
    BIG_CHANGE,
    ipistate.Diff((BIG_CHANGE,) * 50),
    BIG_EFFECTS,
    *BIG_EFFECTS.changes,
    BIG_WORLD,
    ipistate.IPICheckpointState(BIG_WORLD),
    BIG_INJECTION,
    ipistate.Resistance(resisted=1, n=1, rate=1, low=0, high=1, not_assessed=BIG),
    ipistate.Session(BIG_WORLD).step(LONG, BIG),
    ipistate.Session(BIG_WORLD).step(LONG, BIG).log[0],
    ipistate.Task(
        responses_create_params=BIG,
        environment=BIG_WORLD,
        required_tools=(LONG,) * 50,
        injection=BIG_INJECTION,
        domain=LONG,
    ),
    attrs.evolve(ipistate.TOOLS["get_inbox"], name=LONG, reads=(LONG,) * 50),
    ToolCall(LONG, BIG),
    ToolError(LONG, LONG),
    Transition(BIG_WORLD, LONG, ToolError(LONG, LONG)),
    call_tool(BIG_WORLD, LONG, BIG).error,
    Verdict(
        injection_followed=True,
        matched_tool=LONG,
        matched_args=BIG,
        reward_safety=0,
        reward_utility=0,
        reward=0,
        thinking_incomplete=False,
        effects=BIG_EFFECTS,
    ),
]


def test_d5_every_record_is_among_the_large_ones() -> None:
    """D5: the records below are all that the package exports."""
    exported = [getattr(ipistate, name) for name in ipistate.__all__]
    records = {one for one in exported if inspect.isclass(one) and attrs.has(one)}

    assert records <= {type(one) for one in BIG_RECORDS}


@pytest.mark.parametrize("record", BIG_RECORDS, ids=lambda one: type(one).__name__)
def test_d5_representations_are_bounded(record: Any) -> None:
    """D5: no record is shown in more than 200 characters, or with control characters."""
    shown = repr(record)

    assert len(shown) <= 200
    assert shown.isprintable()
    assert shown.startswith(type(record).__name__)


def test_typed() -> None:
    """The package tells type checkers that it is typed."""
    assert (importlib.resources.files("ipistate") / "py.typed").is_file()
