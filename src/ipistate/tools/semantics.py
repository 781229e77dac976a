"""Python's operators on JSON values, with the reference's texts when they fail.

Replies must not depend on the interpreter or on the names of our classes, so every
message is written here and none is taken from a live exception (docs/reference/tools.md, section 6).
"""

from __future__ import annotations

import operator

from math import isfinite
from typing import TYPE_CHECKING, Final, TypeVar

from ipistate.kernel import (
    INTEGER_BOUND,
    MAX_INTEGER_DIGITS,
    JsonArray,
    JsonObject,
    JsonValue,
    concatenated,
    encode,
    whole_text,
)


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

MAX_REPEAT: Final = 1_000_000
"""Characters of the longest text, or bytes of the array's JSON, from a product."""

_LONG_PART: Final = 100
_LONG_WHOLE: Final = 2_500


class Refused(Exception):
    """A tool's answer to something it cannot do: an exception name and its text."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message


class Absent:
    """The type of ``ABSENT``: there is no such record."""


ABSENT: Final = Absent()

# Tuples, because a union of types is made again wherever it is written.
_CONTAINERS: Final = (list, dict)
_ITERABLE: Final = (list, str, dict)
_NUMBER: Final = (int, float)
_SEQUENCE: Final = (str, list)

_NAMES: Final[dict[type, str]] = {
    JsonObject: "dict",
    JsonArray: "list",
    type(None): "NoneType",
}


def type_name(value: JsonValue) -> str:
    """Name a JSON type as Python does: ``dict``, ``list``, ``NoneType``."""
    return _NAMES.get(type(value)) or type(value).__name__


def text(value: JsonValue) -> str:
    """Print a value as ``str`` does: arrays and objects in Python's literal form."""
    return value if isinstance(value, str) else str(value)


def no_attribute(value: JsonValue, name: str) -> Refused:
    """Make the answer for a method that the value's type does not have."""
    message = f"'{type_name(value)}' object has no attribute '{name}'"
    return Refused("AttributeError", message)


def field(row: JsonValue, name: str, default: JsonValue = None) -> JsonValue:
    """Read a member of a record; a missing one counts as ``default``."""
    if isinstance(row, dict):
        return row.get(name, default)
    raise no_attribute(row, "get")


def required(row: JsonValue, name: str) -> JsonValue:
    """Read a member that must be there."""
    if isinstance(row, dict) and name in row:
        return row[name]
    raise Refused("KeyError", f"'{name}'")


def lower(value: JsonValue) -> str:
    """Lower-case a string by the full Unicode rules; nothing is trimmed or folded."""
    if isinstance(value, str):
        return value.lower()
    raise no_attribute(value, "lower")


def search(part: str) -> Callable[[str, str], bool]:
    """Choose how to look for a text in others: ``search(part)(whole, part)``."""
    return operator.contains if len(part) < _LONG_PART else _holds


def _holds(whole: str, part: str) -> bool:
    room = len(whole) - len(part)
    if room < 0:
        return False
    # The interpreter looks for a long part in linear time only if the whole is more than
    # three times as long. What is found behind its true end is no part of it.
    padded = whole.ljust(max(_LONG_WHOLE, 3 * len(part) + 8))
    return 0 <= padded.find(part) <= room


def iterate(value: JsonValue) -> Iterable[JsonValue]:
    """Visit elements of an array, characters of a string, keys of an object."""
    if isinstance(value, _ITERABLE):
        return value
    raise Refused("TypeError", f"'{type_name(value)}' object is not iterable")


def walk(table: JsonValue) -> Iterable[JsonValue]:
    """Visit the records of a table in order."""
    if isinstance(table, dict):
        return table.values()
    raise no_attribute(table, "values")


def first_with(
    table: JsonValue, name: str, wanted: JsonValue
) -> tuple[str, JsonValue] | None:
    """Find the first record of a table with a field; later ones are not looked at."""
    if not isinstance(table, dict):
        raise no_attribute(table, "values")
    for key, row in table.items():
        if field(row, name) == wanted:
            return key, row
    return None


def contains(container: JsonValue, key: JsonValue) -> bool:
    """Test membership: a key of an object, an element of an array, a part of a text."""
    if isinstance(container, dict):
        if isinstance(key, _CONTAINERS):
            raise Refused("TypeError", f"unhashable type: '{type_name(key)}'")
        return key in container
    if isinstance(container, list):
        return key in container
    if not isinstance(container, str):
        shown = f"argument of type '{type_name(container)}' is not iterable"
        raise Refused("TypeError", shown)
    if isinstance(key, str):
        return search(key)(container, key)
    shown = f"'in <string>' requires string as left operand, not {type_name(key)}"
    raise Refused("TypeError", shown)


def take(container: JsonValue, key: JsonValue) -> JsonValue:
    """Take what membership found; in an array the key is an index, not an element."""
    if isinstance(container, dict):
        return container[key]  # type: ignore[index]
    if isinstance(container, list):
        return container[index_of(container, key, "list index out of range")]
    raise Refused("TypeError", "string indices must be integers, not 'str'")


def index_of(array: list[JsonValue], key: JsonValue, out_of_range: str) -> int:
    """Turn a key into a valid index of an array, as Python's subscript does."""
    if not isinstance(key, int):
        shown = f"list indices must be integers or slices, not {type_name(key)}"
        raise Refused("TypeError", shown)
    if -len(array) <= key < len(array):
        return key
    if not -(2**63) <= key < 2**63:
        out_of_range = "cannot fit 'int' into an index-sized integer"
    raise Refused("IndexError", out_of_range)


def find(container: JsonValue, key: JsonValue) -> JsonValue | Absent:
    """Look a record up; ``ABSENT`` if the key is not in the container."""
    if isinstance(container, dict) and isinstance(key, str):
        return container.get(key, ABSENT)  # the usual case, and the same in one step
    return take(container, key) if contains(container, key) else ABSENT


def less(left: JsonValue, right: JsonValue, sign: str = "<") -> bool:
    """Compare as ``left < right``; ``sign`` only words the refusal."""
    if isinstance(left, str) and isinstance(right, str):
        return left < right
    if isinstance(left, _NUMBER) and isinstance(right, _NUMBER):
        return left < right
    if isinstance(left, list) and isinstance(right, list):
        return _first_difference(left, right, sign) or False
    kinds = (left, right) if sign == "<" else (right, left)
    first, second = map(type_name, kinds)
    shown = f"'{sign}' not supported between instances of '{first}' and '{second}'"
    raise Refused("TypeError", shown)


def _first_difference(
    left: list[JsonValue], right: list[JsonValue], sign: str
) -> bool | None:
    # Whether the left one is less, None if they are equal. Each part is looked at once:
    # to compare inner arrays first and then look for the difference would do it again
    # at every level.
    for one, other in zip(left, right, strict=False):
        if isinstance(one, list) and isinstance(other, list):
            found = _first_difference(one, other, sign)
            if found is not None:
                return found
        elif one != other:
            return less(one, other, sign)
    return None if len(left) == len(right) else len(left) < len(right)


def greater(left: JsonValue, right: JsonValue) -> bool:
    """Compare as ``left > right``."""
    return less(right, left, ">")


def add(left: JsonValue, right: JsonValue) -> JsonValue:
    """Compute ``left + right``; the result is always a JSON value."""
    if isinstance(left, _NUMBER) and isinstance(right, _NUMBER):
        try:
            return _storable(left + right)
        except OverflowError:
            raise _too_large() from None
    if isinstance(left, str) and isinstance(right, str):
        return concatenated(left, right)
    if isinstance(left, list) and isinstance(right, list):
        return JsonArray([*left, *right])
    if isinstance(left, _SEQUENCE):
        kind = type_name(left)
        shown = f'can only concatenate {kind} (not "{type_name(right)}") to {kind}'
        raise Refused("TypeError", shown)
    raise _unsupported("+", left, right)


def multiply(left: JsonValue, right: JsonValue) -> JsonValue:
    """Compute ``left * right``: a product, or a repeated text or array."""
    if isinstance(left, _NUMBER) and isinstance(right, _NUMBER):
        try:
            return _storable(left * right)
        except OverflowError:
            raise _too_large() from None
    if isinstance(left, _SEQUENCE):
        return _repeated(left, right)
    if isinstance(right, _SEQUENCE):
        return _repeated(right, left)
    raise _unsupported("*", left, right)


def _repeated(sequence: str | JsonArray, count: JsonValue) -> JsonValue:
    if not isinstance(count, int):
        shown = f"can't multiply sequence by non-int of type '{type_name(count)}'"
        raise Refused("TypeError", shown)
    if not -(2**63) <= count < 2**63:
        shown = "cannot fit 'int' into an index-sized integer"
        raise Refused("OverflowError", shown)
    # Elements may be large themselves, so an array counts by its text.
    size = len(sequence) if isinstance(sequence, str) else len(encode(sequence))
    if size * count > MAX_REPEAT:
        raise Refused("MemoryError", f"the result is longer than {MAX_REPEAT:,}")
    repeated = sequence * count
    return whole_text(repeated) if isinstance(repeated, str) else repeated


def _storable(number: float) -> float:
    if isinstance(number, int):
        if abs(number) < INTEGER_BOUND:
            return number
        shown = f"the result has more than {MAX_INTEGER_DIGITS} digits"
        raise Refused("OverflowError", shown)
    if isfinite(number):
        return number
    raise Refused("OverflowError", "the result is not a finite number")


def _too_large() -> Refused:
    return Refused("OverflowError", "int too large to convert to float")


def _unsupported(sign: str, left: JsonValue, right: JsonValue) -> Refused:
    first, second = type_name(left), type_name(right)
    shown = f"unsupported operand type(s) for {sign}: '{first}' and '{second}'"
    return Refused("TypeError", shown)
