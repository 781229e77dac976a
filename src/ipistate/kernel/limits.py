"""What plain data must keep to become a value: whole texts, finite numbers, some depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

from ipistate.errors import EncodeError, json_path, preview
from ipistate.kernel.hints import replacement


if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_DEPTH: Final = 200
"""Containers inside one another that a value may have (``[[1]]`` has two)."""

MAX_INTEGER_DIGITS: Final = 4300
"""Decimal digits of the longest integer (CPython's own default limit)."""

INTEGER_BOUND: Final[int] = 10**MAX_INTEGER_DIGITS
"""The smallest positive integer with too many digits."""

Path: TypeAlias = tuple[str | int, ...]
"""Names and indices that lead from a document to a value in it."""

TOO_DEEP: Final = f"more than {MAX_DEPTH} levels of nesting"

_INFINITY: Final = float("inf")
_CONTAINERS: Final = (dict, list)


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Tell whether unchecked data is an object, its names assumed to be strings."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """Tell whether unchecked data is an array."""
    return isinstance(value, list)


def whole_text(text: str) -> str:
    """Join a high and a low surrogate that are adjacent into their one character.

    Written as JSON they are that character, so keeping them apart would not survive
    storage. Unpaired surrogates stay.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        units = text.encode("utf-16-le", "surrogatepass")
        return units.decode("utf-16-le", "surrogatepass")
    return text


def concatenated(left: str, right: str) -> str:
    """Add two whole texts; the result is whole, and neither is looked through again.

    Only where they meet can a high surrogate find its low one.
    """
    text = left + right
    if "\ud800" <= left[-1:] <= "\udbff" and "\udc00" <= right[:1] <= "\udfff":
        return whole_text(text)
    return text


def depth(value: Any) -> int:
    """Count the containers inside one another: 0 for a scalar, 2 for ``[[1]]``."""
    kind: Any = value.__class__
    if issubclass(kind, dict):
        parts: Iterable[Any] = value.values()
    elif issubclass(kind, list):
        parts = value
    else:
        return 0
    deepest = 0
    for part in parts:
        if part.__class__ is not str and isinstance(part, _CONTAINERS):
            deepest = max(deepest, depth(part))
    return deepest + 1


def check_depth(value: Any) -> None:
    """Refuse a value that unchecked operations have nested too deeply.

    Raises:
        EncodeError: ``too_deep``.
    """
    if depth(value) > MAX_DEPTH:
        raise too_deep(())


def checked_number(value: Any, path: Path) -> Any:
    """Return a number that JSON carries.

    Raises:
        EncodeError: ``integer_too_large``, ``not_finite`` or ``unsupported_type``.
    """
    if type(value) is int:
        if -INTEGER_BOUND < value < INTEGER_BOUND:
            return value
        code, message = "integer_too_large", f"over {MAX_INTEGER_DIGITS} digits"
    elif type(value) is float:
        if -_INFINITY < value < _INFINITY:
            return value
        code, message = "not_finite", "JSON has no NaN and no infinities"
    else:
        code = "unsupported_type"
        message = f"JSON cannot carry {type(value).__module__}.{type(value).__name__}"
        instead = replacement(value)
        message += "" if instead is None else f"; write {instead}"
    raise EncodeError(code, message, json_path(path), preview(value))


def too_deep(path: Path) -> EncodeError:
    """Make the error about a value with too many containers inside one another."""
    return EncodeError("too_deep", TOO_DEEP, json_path(path[:8]))
