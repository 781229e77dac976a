"""What type checkers infer for users who write and test a domain of their own."""

from __future__ import annotations

from typing import assert_type

import attrs

from hypothesis.strategies import SearchStrategy

from ipistate import Environment, JsonObject, JsonValue, Tool, ToolCall, call_tool
from ipistate.testing import (
    Scenario,
    WorldMachine,
    scenarios,
    tool_calls,
    world_machine,
)
from ipistate.tools import table_of, tool
from ipistate.tools.row import Row
from ipistate.tools.world import Change, create, record


@attrs.frozen(kw_only=True)
class Plant(Row):
    """A row of ``plants``."""

    plant_id: str
    name: str


def add_plant(world: JsonObject, name: JsonValue) -> Change:
    """Add a plant."""
    changed, row = create(world, "plants", ("plant_id", "PL-"), record(name=name))
    assert_type(changed, JsonObject)
    assert_type(row, JsonObject)
    return changed, row


def serve(world: Environment) -> None:
    """A table of tools of one's own is served by the kernel."""
    one = tool(add_plant, "garden", writes=["plants"])
    tools = table_of([one])
    assert_type(one, Tool)
    assert_type(
        call_tool(world, "add_plant", {"name": "Fern"}, tools=tools).output, str
    )
    assert_type(scenarios({"plants": Plant}, tools), SearchStrategy[Scenario])
    assert_type(tool_calls(world, tools), SearchStrategy[ToolCall])
    assert_type(world_machine({"plants": Plant}, tools), type[WorldMachine])
