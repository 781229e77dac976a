"""The recorded calls of the reference, byte for byte, ids renamed one to one."""

from __future__ import annotations

import json
import re

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ipistate import TOOLS, Environment, UnknownTool, call_tool, decode, render
from ipistate.sessions import written_error


TAIL = re.compile("[0-9A-F]{6}")


class Renaming:
    """A one-to-one map from recorded id tails to ours, found by their position."""

    def __init__(self, minted: list[Any]) -> None:
        self.minted = minted
        self.ours: dict[str, Any] = {}

    def apply(self, recorded: str) -> str:
        """Put our tails in the place of the recorded ones that are known so far."""
        for theirs, ours in self.ours.items():
            recorded = recorded.replace(theirs, ours)
        return recorded

    def expected(self, recorded: str, actual: str) -> str:
        """Rename a recorded text, learning new tails from the same place of ours."""
        for theirs in self.minted:
            renamed = self.apply(recorded)
            at = renamed.find(theirs)
            if at >= 0:
                ours = actual[at : at + 6]
                assert TAIL.fullmatch(ours)
                assert ours not in self.ours.values()
                self.ours[theirs] = ours
        return self.apply(recorded)


def check_call(
    renaming: Renaming, environment: Environment, call: dict[str, Any]
) -> Environment:
    """Make a recorded call, compare its answer and return the world after it."""
    arguments = decode(renaming.apply(json.dumps(call["arguments"])))
    done = call_tool(environment, call["tool"], arguments)

    assert renaming.expected(call["output"], done.output) == done.output
    # The reference raises nothing for a name that is no tool's; we note an error.
    assert isinstance(done.error, UnknownTool) == (call["tool"] not in TOOLS)
    raised = written_error(done.error)
    assert call["raised"] == (raised and raised.type)
    return done.environment


@pytest.mark.parametrize("name", [*sorted(TOOLS), "unknown"])
def test_tools(
    name: str, conformance: Callable[..., list[dict[str, Any]]], proven: Counter[str]
) -> None:
    """Every recorded call gives the recorded reply, exception and world."""
    rows = [
        row
        for row in conformance("tools.jsonl")
        if row["tool"] == name or (name == "unknown" and row["tool"] not in TOOLS)
    ]
    assert rows
    for row in rows:
        renaming = Renaming(row["minted"])
        before = Environment.from_json(json.dumps(row["environment_before"]))
        after = render(check_call(renaming, before, row).document)

        assert renaming.expected(json.dumps(row["environment_after"]), after) == after
        assert json.dumps(row["environment_before"]) == render(before.document)
        proven[f"calls of tools.jsonl on {len(TOOLS)} tools"] += 1


def test_sequences(
    conformance: Callable[..., list[dict[str, Any]]], proven: Counter[str]
) -> None:
    """Every recorded sequence gives the recorded replies and the world at its end."""
    for row in conformance("sequences.jsonl"):
        renaming = Renaming(row["minted"])
        world = Environment.from_json(json.dumps(row["environment"]))
        for call in row["calls"]:
            world = check_call(renaming, world, call)
            proven["calls of sequences.jsonl"] += 1
        after = render(world.document)

        assert renaming.expected(json.dumps(row["environment_after"]), after) == after
        proven["sequences of sequences.jsonl"] += 1


def test_all_rows_are_read(conformance: Callable[..., list[dict[str, Any]]]) -> None:
    """The files hold as many rows as their description says, so none is lost."""
    counts = {"tools.jsonl": 2975, "sequences.jsonl": 156}
    counts |= {"verify.jsonl": 420, "metrics.jsonl": 40}

    assert counts == {name: len(conformance(name)) for name in counts}
