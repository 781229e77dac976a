"""Strategies for tool calls: what models send, good and bad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from ipistate.kernel import MAX_DEPTH, JsonObject, JsonValue
from ipistate.testing.json_values import json_names, json_strings, plain_json
from ipistate.tools import TOOLS, Tool, ToolCall, Transition, call_tool


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hypothesis.strategies import SearchStrategy

    from ipistate.kernel import Environment

_BY_TYPE: Final[dict[str, SearchStrategy[Any]]] = {
    "string": st.one_of(json_strings(), st.sampled_from(("P-1", "open", "OPEN", "a"))),
    "number": st.one_of(st.integers(-50, 50), st.sampled_from((0.5, 2**64, 1e200))),
    "integer": st.integers(-50, 50),
    "boolean": st.booleans(),
    "array": st.lists(json_strings(), max_size=3),
    "object": st.dictionaries(json_names(), json_strings(), max_size=3),
}

_RARELY: Final = st.sampled_from((*[False] * 19, True))
_KINDS: Final = st.sampled_from(
    (*["good"] * 4, *["held"] * 4, "left out", "left out", "null", "any")
)


@st.composite
def arguments(draw: st.DrawFn, tool: Tool, environment: Environment) -> JsonObject:
    """Arguments for one tool: mostly good ones, with ids that the world holds.

    Some are missing, null, of another type, misspelt or unknown.
    """
    known = tuple(_words(environment.document))
    members: dict[str, Any] = {}
    for name in draw(st.permutations(tool.names)):
        kind = draw(_KINDS)
        if kind == "null":
            members[name] = None
        elif kind == "any":
            members[name] = draw(plain_json(4, MAX_DEPTH - 1))
        elif kind == "held" and known:
            members[name] = draw(st.sampled_from(known))
        elif kind != "left out" or name in tool.required:
            members[name] = draw(_fitting(tool, name))
    if draw(_RARELY):
        members[draw(misspelt(tool))] = draw(plain_json(2, MAX_DEPTH - 1))
    return JsonObject(members)


def _fitting(tool: Tool, name: str) -> SearchStrategy[Any]:
    properties: Any = tool.parameters["properties"]
    return _BY_TYPE.get(properties[name].get("type"), plain_json(4, MAX_DEPTH - 1))


def misspelt(tool: Tool) -> SearchStrategy[str]:
    """Names that are no parameters of a tool, or nearly one, or the reserved one."""
    near = st.sampled_from(tool.names or ("x",)).flatmap(
        lambda name: st.sampled_from((name[1:], name.upper(), name + "s", f"x{name}"))
    )
    return st.one_of(near, st.just("env"), json_names())


def _words(world: JsonObject) -> Iterator[JsonValue]:
    # Keys of tables and short members of rows: what a model has read and may quote.
    for content in world.values():
        if isinstance(content, dict):
            yield from content
            for row in content.values():
                if isinstance(row, dict):
                    yield from (m for m in row.values() if not isinstance(m, dict))


@st.composite
def tool_calls(
    draw: st.DrawFn, environment: Environment, tools: Mapping[str, Tool] = TOOLS
) -> ToolCall:
    """One call of any tool of a table; now and then of a tool that is not in it."""
    if draw(_RARELY):
        unknown = draw(json_names().filter(lambda name: name not in tools))
        return ToolCall(unknown, JsonObject(draw(st.just({}))))
    tool = tools[draw(st.sampled_from(sorted(tools)))]
    return ToolCall(tool.name, draw(arguments(tool, environment)))


def call_sequences(
    environment: Environment,
    tools: Mapping[str, Tool] = TOOLS,
    max_size: int = 8,
) -> SearchStrategy[tuple[ToolCall, ...]]:
    """One call after another, each drawn in the world that the ones before left.

    So a later call may name what an earlier one has made.
    """
    made = made_calls(environment, tools, max_size)
    return made.map(lambda pairs: tuple(call for call, _ in pairs))


@st.composite
def made_calls(
    draw: st.DrawFn,
    environment: Environment,
    tools: Mapping[str, Tool] = TOOLS,
    max_size: int = 8,
) -> tuple[tuple[ToolCall, Transition], ...]:
    """Calls as in ``call_sequences``, each with what it did when it was drawn."""
    made: list[tuple[ToolCall, Transition]] = []
    for _ in range(draw(st.integers(1, max_size))):
        call = draw(tool_calls(environment, tools))
        done = call_tool(environment, call.name, call.arguments, tools=tools)
        made.append((call, done))
        environment = done.environment
    return tuple(made)
