"""Reading one place of a JSON value, with the type that the reader expects there."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from ipistate.errors import SchemaError, json_path, preview
from ipistate.kernel.misuse import misused
from ipistate.kernel.values import JsonArray, JsonObject, JsonValue


J = TypeVar("J", bound=bool | int | float | str | JsonArray | JsonObject)

_NAMES: Final[dict[type, str]] = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    JsonArray: "an array",
    JsonObject: "an object",
}


def value_at(value: JsonValue, path: tuple[str | int, ...]) -> JsonValue:
    """Follow names and indices.

    Raises:
        SchemaError: ``missing_member``: there is no such place; ``wrong_type``: the path
            goes on in a value that has no members.
        TypeError: A step of the path is neither a name nor an index.
    """
    for length, step in enumerate(path):
        _check_step(step)
        holder = value
        if not isinstance(holder, JsonObject | JsonArray):
            message, where = "expected an object or an array", json_path(path[:length])
            raise SchemaError("wrong_type", message, where, preview(holder))
        try:
            value = _member(holder, step)
        except (LookupError, TypeError):
            where, shown = json_path(path[: length + 1]), preview(holder)
            message = "there is no such place"
            raise SchemaError("missing_member", message, where, shown) from None
    return value


def _member(holder: Any, step: str | int) -> JsonValue:
    return holder[step]  # type: ignore[no-any-return]


def _check_step(step: object) -> None:
    if not isinstance(step, str | int):
        instead = 'at("patients", "P-7")'
        raise misused("a path is made of names and indices", step, instead)


def narrowed(value: JsonValue, of: type[J], path: tuple[str | int, ...]) -> J:
    """Return a value of one type; an integer is a number, too, and a boolean is neither.

    Raises:
        SchemaError: ``wrong_type``.
    """
    if isinstance(value, bool) and of is not bool:
        fits = False
    else:
        fits = isinstance(value, int | float if of is float else of)
    if not fits:
        message = f"expected {_NAMES.get(of, of.__name__)}"
        raise SchemaError("wrong_type", message, json_path(path), preview(value))
    return value  # type: ignore[return-value]
