"""Strict arguments: tools that refuse what their JSON Schema does not allow.

By default a tool takes any JSON and does what the reference does with it, so that
``"2" * 3`` is ``"222"``. This module needs ``jsonschema``, the extra ``strict``.
"""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import attrs

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError as BadSchema
from jsonschema.exceptions import ValidationError
from referencing import Registry

from ipistate.errors import MAX_PROBLEMS, SchemaError, json_path, preview
from ipistate.kernel import JsonArray, JsonObject, JsonValue, is_array, render
from ipistate.tools.arguments import bind
from ipistate.tools.registry import Tool
from ipistate.tools.semantics import Refused
from ipistate.tools.table import TOOLS
from ipistate.tools.tool_table import ToolTable


if TYPE_CHECKING:
    from collections.abc import Mapping

    from jsonschema.protocols import Validator

INVALID_ARGUMENTS: Final = "InvalidArguments"
"""The kind of a refusal, where replies name an exception."""

_KINDS: Final = {
    "null": "null",
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "array": "an array",
    "object": "an object",
}
_TYPES: Final[dict[type, str]] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    JsonArray: "array",
    JsonObject: "object",
    dict: "object",  # arguments that were bound
}
_RULES: Final = {
    "const": "expected {}",
    "enum": "expected one of {}",
    "minimum": "expected at least {}",
    "maximum": "expected at most {}",
    "exclusiveMinimum": "expected more than {}",
    "exclusiveMaximum": "expected less than {}",
    "multipleOf": "expected a multiple of {}",
    "minLength": "expected a length of at least {}",
    "maxLength": "expected a length of at most {}",
    "minItems": "expected a length of at least {}",
    "maxItems": "expected a length of at most {}",
    "pattern": "expected a text with the pattern {}",
}


@attrs.frozen
class Violation:
    """The first place where arguments are not what the schema says."""

    path: str
    """JSONPath; ``$`` is the object of all arguments."""
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@attrs.frozen
class SchemaCheck:
    """A check of a tool's arguments against a JSON Schema, draft 2020-12."""

    schema: JsonObject

    @cached_property
    def _validator(self) -> Validator:
        # With an empty registry nothing that a schema refers to is fetched.
        return Draft202012Validator(self.schema, registry=Registry())

    def violation(self, arguments: Mapping[str, JsonValue]) -> Violation | None:
        """Find the violation with the smallest path; None if there is none.

        Where there are over ``MAX_PROBLEMS``, it is the smallest of the first ones.
        """
        try:
            found = [*islice(self._validator.iter_errors(arguments), MAX_PROBLEMS)]
        except Exception:  # noqa: BLE001 - a reference or a pattern leads nowhere
            return Violation("$", "the tool's schema cannot be applied")
        if not found:
            return None
        first = min(found, key=_place)
        return Violation(json_path(first.absolute_path), _message(first))

    def __call__(self, arguments: Mapping[str, JsonValue]) -> None:
        """Let acceptable arguments pass.

        Raises:
            Refused: ``InvalidArguments``, with the path, what is expected and the JSON
                type that was found.
        """
        violation = self.violation(arguments)
        if violation is not None:
            raise Refused(INVALID_ARGUMENTS, str(violation))


def strict(tools: Mapping[str, Tool] = TOOLS) -> Mapping[str, Tool]:
    """Return the same tools with arguments checked against ``Tool.parameters``.

    The result goes wherever a table of tools does. Names are bound first, so unknown
    and missing arguments are refused as ever and null counts as absent. A refused call
    changes nothing, and nothing is ever coerced.

    Raises:
        SchemaError: ``invalid_schema``: a tool's parameters are not a JSON Schema.
    """
    return ToolTable({name: _strict(one) for name, one in tools.items()})


def find_violation(one: Tool, arguments: JsonObject) -> Violation | None:
    """Find out what strict arguments would refuse about a call; nothing is executed.

    None also where binding refuses the call, which it does without the option, too.
    """
    try:
        bound = bind(one, arguments)
    except Refused:
        return None
    return SchemaCheck(one.parameters).violation(bound)


def _strict(one: Tool) -> Tool:
    check = SchemaCheck(one.parameters)
    if check in one.checks:
        return one
    if TOOLS.get(one.name) is not one:
        _require_schema(one)
    return attrs.evolve(one, checks=(*one.checks, check))


def _require_schema(one: Tool) -> None:
    try:
        Draft202012Validator.check_schema(one.parameters)
    except BadSchema as error:
        message = f"the parameters of {one.name!a} are not a JSON Schema"
        place = json_path(error.absolute_path)
        shown = preview(error.instance)
        raise SchemaError("invalid_schema", message, place, shown) from error


def _place(error: ValidationError) -> tuple[list[tuple[bool, int, str]], str]:
    path = [
        (False, part, "") if isinstance(part, int) else (True, 0, part)
        for part in error.absolute_path
    ]
    return path, str(error.validator)


def _message(error: ValidationError) -> str:
    # Written here, because models read it and a library may change its words.
    keyword: Any = error.validator
    wanted: Any = error.validator_value
    found: Any = error.instance
    if keyword == "type":
        return f"expected {_kinds(wanted)}, not {_KINDS[_TYPES[type(found)]]}"
    if keyword == "required":
        missing = next(name for name in wanted if name not in found)
        return f"the member {preview(missing)} is missing"
    if keyword in _RULES:
        listed = wanted if keyword == "enum" else [wanted]
        return _RULES[keyword].format(", ".join(map(render, listed)))
    if keyword is None:
        return "the schema excludes a part of it"
    return _forbidden(error) or f"the rule {preview(keyword)} of the schema is broken"


def _kinds(wanted: Any) -> str:
    names = wanted if is_array(wanted) else [wanted]
    return " or ".join(_KINDS[name] for name in names)


def _forbidden(error: ValidationError) -> str | None:
    schema: Any = error.schema
    if error.validator != "additionalProperties" or "patternProperties" in schema:
        return None
    members: Any = error.instance
    extra = next(name for name in members if name not in schema.get("properties", ()))
    return f"the member {preview(extra)} is not allowed"
