"""The environment machine: one call in, one new environment and one reply out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

import attrs

from ipistate.kernel import (
    EMPTY_OBJECT,
    Environment,
    JsonObject,
    JsonValue,
    as_json,
    check_depth,
    freeze,
    render,
)
from ipistate.tools.arguments import bind
from ipistate.tools.registry import Tool
from ipistate.tools.semantics import Refused, type_name
from ipistate.tools.table import TOOLS


def _frozen_arguments(members: Mapping[str, object]) -> JsonObject:
    return cast("JsonObject", freeze(members))


@attrs.frozen
class ToolCall:
    """A tool's name and its arguments as the model gave them.

    Raises:
        EncodeError: The arguments are not JSON.
    """

    name: str
    arguments: JsonObject = attrs.field(
        default=EMPTY_OBJECT, converter=_frozen_arguments
    )


@attrs.frozen
class ToolError:
    """Why a call was refused: the exception name and message in the reply."""

    type: str
    message: str


@attrs.frozen
class Transition:
    """What a call did: the environment after it, and what the model reads."""

    environment: Environment
    output: str
    error: ToolError | None = None
    """Set if the reply reports an exception; the environment is then unchanged."""


def call_tool(
    environment: Environment,
    name: str,
    arguments: JsonValue | Mapping[str, object],
    *,
    tools: Mapping[str, Tool] = TOOLS,
) -> Transition:
    """Execute one tool call. Pure, and total for everything a model can send.

    An unknown tool, bad arguments and a failing tool are answers; the environment is
    then the one that was given (docs/reference/tools.md, sections 2 and 6).

    Args:
        environment: The session's world; never changed.
        name: The tool's name, exactly.
        arguments: A JSON object; members that are null count as absent.
        tools: The table of tools, so that a user's own domain can be served.

    Raises:
        EncodeError: ``arguments`` are not JSON, which no model can send.
    """
    given = as_json(arguments)
    tool = tools.get(name)
    if tool is None:
        return Transition(environment, f"Unknown tool: {name}")
    if not isinstance(given, JsonObject):
        message = f"arguments must be an object, not {type_name(given)}"
        return _failed(environment, name, "TypeError", message)
    try:
        changed = environment
        bound = bind(tool, given)
        for check in tool.checks:
            check(bound)
        document, reply = tool.run(environment.document, **bound)
        if document is not environment.document:
            changed = Environment(document if tool.keeps_depth else _measured(document))
        output = reply if isinstance(reply, str) else render(reply)
    except Refused as refused:
        return _failed(environment, name, refused.kind, refused.message)
    except Exception as error:  # noqa: BLE001 - a user's tool may raise anything
        return _failed(environment, name, type(error).__name__, _text_of(error))
    return Transition(changed, output)


def _measured(document: JsonObject) -> JsonObject:
    # A user's tool may build plain data; what is not JSON is refused with its path.
    if document.__class__ is not JsonObject:
        return cast("JsonObject", freeze(document))
    check_depth(document)
    return document


def _text_of(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - that, too, is a user's code
        return ""


def _failed(environment: Environment, name: str, kind: str, message: str) -> Transition:
    output = f"Error executing tool '{name}' ({kind}): {message}"
    return Transition(environment, output, ToolError(kind, message))


def replay(
    environment: Environment,
    calls: Iterable[ToolCall],
    *,
    tools: Mapping[str, Tool] = TOOLS,
) -> Iterator[Transition]:
    """Execute calls one after another, yielding the transition of each."""
    for call in calls:
        transition = call_tool(environment, call.name, call.arguments, tools=tools)
        environment = transition.environment
        yield transition


def world_after(
    environment: Environment,
    calls: Iterable[ToolCall],
    *,
    tools: Mapping[str, Tool] = TOOLS,
) -> Environment:
    """Execute calls one after another and return the world that they lead to."""
    for transition in replay(environment, calls, tools=tools):
        environment = transition.environment
    return environment
