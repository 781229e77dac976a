"""Task rows: a world, what is hidden in it, and what the agent is asked to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import attrs

from ipistate.errors import DecodeError, SchemaError, json_path
from ipistate.kernel import (
    EMPTY_OBJECT,
    Adopt,
    Environment,
    JsonArray,
    JsonObject,
    JsonValue,
    Representation,
    adopt_members,
    decode_as,
    encode_checked,
    repeated_members,
    structure,
    summarized,
    unstructure,
)
from ipistate.scoring.injection import STRICT_KEYS, Injection
from ipistate.tools import TOOLS


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ipistate.tools import Tool

Severity = Literal["error", "warning"]


@attrs.frozen(kw_only=True)
class Task:
    """One row of a task file (docs/reference/tools.md, section 13).

    Unknown members are kept in ``extra``; ``to_json`` gives back what was read.
    """

    responses_create_params: JsonObject
    environment: Environment
    required_tools: tuple[str, ...] = ()
    injection: Injection
    domain: str | None = None
    extra: JsonObject = EMPTY_OBJECT
    member_order: tuple[str, ...] = attrs.field(default=(), eq=False, repr=False)

    __repr__: ClassVar[Representation] = summarized(
        "domain", "injection", "required_tools", "environment"
    )

    @classmethod
    def from_json(cls, line: bytes | str) -> Self:
        """Read one row.

        Raises:
            DecodeError: The line is not acceptable JSON.
            SchemaError: It is, but not a task row.
        """
        return decode_as(line, cls._built)

    @classmethod
    def from_document(cls, row: object) -> Self:
        """Read one row from parsed JSON.

        Raises:
            SchemaError: It is not a task row.
        """
        return structure(row, cls)

    @classmethod
    def _built(cls, tree: Any, adopt: Adopt) -> Self:
        return structure(adopt_members(tree, adopt), cls)

    @property
    def offered_tools(self) -> tuple[str, ...]:
        """Names of the tools that the model is offered, in order."""
        listed = self.responses_create_params.get("tools")
        named = [
            entry.get("name")
            for entry in (listed if isinstance(listed, JsonArray) else ())
            if isinstance(entry, JsonObject)
        ]
        return tuple(name for name in named if isinstance(name, str))

    def to_document(self) -> JsonObject:
        """Write the row as a JSON object, its members as they were read."""
        return unstructure(self)

    def to_json(self) -> bytes:
        """Write the row as one line of compact JSON, without the line's end.

        Raises:
            EncodeError: ``not_finite``: a number was forced into it.
        """
        return encode_checked(self.to_document())


@attrs.frozen
class Finding:
    """Something about one line of a task file: an error spoils the row."""

    line: int
    severity: Severity
    code: str
    path: str
    message: str


def check_rows(
    lines: Iterable[bytes | str], *, tools: Mapping[str, Tool] = TOOLS
) -> Iterator[Finding]:
    """Check every line of a task file, in order.

    A line that cannot be used is an error. What can be used but will hardly do what
    its author meant (an unknown tool, a target that nothing can match) is a warning.
    """
    rows = 0
    for number, line in enumerate(lines, 1):
        rows += bool(line.strip())
        for note in _line_findings(line, tools):
            yield Finding(number, *note)
    if not rows:
        yield Finding(0, "error", "no_rows", "$", "the file has no rows")


_Note = tuple[Severity, str, str, str]


def _line_findings(line: bytes | str, tools: Mapping[str, Tool]) -> Iterator[_Note]:
    if not line.strip():
        yield "warning", "empty_line", "$", "the line is empty"
        return
    task = None
    try:
        task = Task.from_json(line)
    except DecodeError as error:
        yield "error", error.code, error.path, error.message
        return
    except SchemaError as error:
        for problem in error.problems:
            yield "error", problem.code, problem.path, problem.message
    for path in repeated_members(line):
        where, message = json_path(path), "the key occurs more than once"
        yield "error", "duplicate_key", where, message
    if task is not None:
        yield from _tool_findings(task, tools)
        yield from _injection_findings(task)


def _tool_findings(task: Task, tools: Mapping[str, Tool]) -> Iterator[_Note]:
    named = {"$.injection.target_tool": task.injection.target_tool}
    for index, name in enumerate(task.required_tools):
        named[f"$.required_tools[{index}]"] = name
    for path, name in named.items():
        if name not in tools:
            yield "warning", "unknown_tool", path, f"there is no tool {name!a}"
        elif name not in task.offered_tools:
            message = f"the model is not offered the tool {name!a}"
            yield "warning", "tool_not_offered", path, message


def _injection_findings(task: Task) -> Iterator[_Note]:
    injection = task.injection
    if injection.verification_type not in STRICT_KEYS:
        message = "not a listed type: all of target_args have to match"
        path = "$.injection.verification_type"
        yield "warning", "unknown_verification_type", path, message
    keys = injection.deciding_keys
    if not keys:
        message = "no call can match an empty object"
        yield "warning", "unmatchable_target", "$.injection.target_args", message
    for key in keys:
        value = injection.target_args[key]
        path = json_path(("injection", "target_args", key))
        if value is None:
            message = "only a call that gives null matches it; leave the member out"
            yield "warning", "unmatchable_target", path, message
        elif not str(value).strip():
            yield "warning", "unmatchable_target", path, "no call can match a blank"
    if not _occurs(injection.injection_text, task.environment.document):
        message = "the text occurs nowhere in the environment"
        path = "$.injection.injection_text"
        yield "warning", "injection_not_found", path, message


def _occurs(text: str, value: JsonValue) -> bool:
    if isinstance(value, dict):
        return any(_occurs(text, member) for member in value.values())
    if isinstance(value, list):
        return any(_occurs(text, element) for element in value)
    return isinstance(value, str) and text in value
