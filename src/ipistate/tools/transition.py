"""The environment machine: one call in, one new environment and one reply out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Self, cast

import attrs

from ipistate.errors import SchemaError, preview
from ipistate.kernel import (
    EMPTY_OBJECT,
    Environment,
    JsonObject,
    JsonValue,
    Representation,
    as_json,
    check_depth,
    freeze,
    html_table,
    misused,
    render,
    summarized,
)
from ipistate.tools.arguments import bind
from ipistate.tools.registry import Tool
from ipistate.tools.semantics import Refused, type_name
from ipistate.tools.table import TOOLS
from ipistate.tools.tool_table import nearest, require_tool


def _frozen_arguments(members: object) -> JsonObject:
    given = freeze(members)
    if isinstance(given, JsonObject):
        return given
    raise SchemaError("wrong_type", "arguments are an object", preview=preview(given))


@attrs.frozen
class ToolCall:
    """A tool's name and its arguments as the model gave them.

    Raises:
        EncodeError: The arguments are not JSON.
        SchemaError: ``wrong_type``: they are not an object.
    """

    name: str
    arguments: JsonObject = attrs.field(
        default=EMPTY_OBJECT, converter=_frozen_arguments
    )

    __repr__: ClassVar[Representation] = summarized()


@attrs.frozen
class ToolError:
    """Why a call was refused: the exception name and message in the reply."""

    code: ClassVar[str] = "tool_error"
    """The stable name of the cause; here, the tool or the binding refused."""

    type: str
    message: str

    __repr__: ClassVar[Representation] = summarized()


@attrs.frozen
class UnknownTool(ToolError):
    """Why a call was refused: there is no such tool. The message is the reply."""

    code: ClassVar[str] = "unknown_tool"
    """The stable name of the cause."""

    name: str
    known: tuple[str, ...] = attrs.field(repr=False, eq=False)
    """Names of the tools that there are."""

    @classmethod
    def of(cls, name: str, tools: Iterable[str]) -> Self:
        """Make the error about a name that is not among those of the tools."""
        return cls("UnknownTool", f"Unknown tool: {name}", name, tuple(tools))

    @property
    def suggestion(self) -> str | None:
        """The tool that was probably meant, if one has a name like it."""
        return nearest(self.name, self.known)

    __repr__: ClassVar[Representation] = summarized("suggestion", "name")


@attrs.frozen
class Transition:
    """What a call did: the environment after it, and what the model reads."""

    environment: Environment
    output: str
    error: ToolError | None = None
    """Set if the call was refused; the environment is then unchanged."""

    __repr__: ClassVar[Representation] = summarized("output", "environment", "error")

    def _repr_html_(self) -> str:
        error = "" if self.error is None else repr(self.error)
        rows = [
            ("output", self.output),
            ("error", error),
            ("environment", repr(self.environment)),
        ]
        return html_table("Transition", ("part", "content"), rows, len(rows))


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
        TypeError: ``environment`` is no ``Environment``, ``tools`` is no table of
            tools, or ``name`` is no text.
    """
    given = as_json(arguments)
    try:
        world, tool = environment.document, tools.get(name)
    except AttributeError:
        raise _misused(environment, tools) from None
    if tool is None:
        _require_name(name)
        error = UnknownTool.of(name, tools)
        return Transition(environment, error.message, error)
    if not isinstance(given, JsonObject):
        message = f"arguments must be an object, not {type_name(given)}"
        return _failed(environment, name, "TypeError", message)
    try:
        changed = environment
        bound = bind(tool, given)
        for check in tool.checks:
            check(bound)
        document, reply = tool.run(world, **bound)
        if document is not world:
            changed = Environment(document if tool.keeps_depth else _measured(document))
        output = reply if isinstance(reply, str) else render(reply)
    except Refused as refused:
        return _failed(environment, name, refused.kind, refused.message)
    except Exception as error:  # noqa: BLE001 - a user's tool may raise anything
        require_tool(tool)
        return _failed(environment, name, type(error).__name__, _text_of(error))
    return Transition(changed, output)


def _misused(environment: object, tools: object) -> TypeError:
    if isinstance(environment, Environment):
        what, instead = "tools= takes a table", 'table_of([tool(function, "domain")])'
        return misused(what, tools, instead)
    instead = "Environment.of(world)"
    if hasattr(environment, "environment"):
        instead = f"{type(environment).__name__.lower()}.environment"
    return misused("a call is made in an Environment", environment, instead)


def _require_call(call: object) -> None:
    if not isinstance(call, ToolCall):
        what = "calls are ToolCalls"
        raise misused(what, call, 'ToolCall("get_inbox", {…})')


def _require_name(name: object) -> None:
    if not isinstance(name, str):
        raise misused("a tool is called by its name", name, "the name, a text")


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
    """Execute calls one after another, yielding the transition of each.

    Raises:
        TypeError: One of them is no call; or as ``call_tool``.
    """
    for call in calls:
        _require_call(call)
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
