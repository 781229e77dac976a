"""Filters of the searching tools: tests on one record at a time.

Each maker returns ``None`` when its argument asks for nothing. Which side is
lower-cased first decides the text of a refusal, so there are two exact forms
(docs/reference/tools.md, section 3, "Filters"). An argument is lower-cased once, however
many records there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ipistate.kernel import JsonArray, JsonValue, trusted_array
from ipistate.tools.semantics import field, greater, less, lower, search


if TYPE_CHECKING:
    from collections.abc import Iterable

Test: TypeAlias = Callable[[JsonValue], bool] | None


def select(rows: Iterable[JsonValue], *tests: Test) -> JsonArray:
    """Keep the records that pass every test, in stored order, unchanged."""
    asked = [test for test in tests if test is not None]
    return trusted_array([row for row in rows if all(test(row) for test in asked)])


def equals(name: str, wanted: JsonValue) -> Test:
    """``field == wanted``, whatever ``wanted`` is."""
    return lambda row: field(row, name) == wanted


def eq(name: str, wanted: JsonValue) -> Test:
    """``field == wanted`` if ``wanted`` is truthy."""
    return equals(name, wanted) if wanted else None


def eq_given(name: str, wanted: JsonValue) -> Test:
    """``field == wanted`` if ``wanted`` was given, falsy or not."""
    return None if wanted is None else equals(name, wanted)


def lowered_equals(name: str, wanted: JsonValue) -> Callable[[JsonValue], bool]:
    """Equal after lower-casing, the field first, whatever ``wanted`` is."""
    if not isinstance(wanted, str):
        return lambda row: lower(field(row, name, "")) == lower(wanted)
    lowered = wanted.lower()
    return lambda row: lower(field(row, name, "")) == lowered


def ci_field_first(name: str, wanted: JsonValue) -> Test:
    """Equal after lower-casing, the field first (``ci f→a``)."""
    return lowered_equals(name, wanted) if wanted else None


def ci(name: str, wanted: JsonValue) -> Test:
    """Equal after lower-casing, the argument first (``ci a→f``)."""
    if not isinstance(wanted, str):
        return _refusing(wanted)
    return ci_field_first(name, wanted)


def sub(name: str, wanted: JsonValue) -> Test:
    """Contained after lower-casing, the argument first (``sub a→f``)."""
    if not wanted:
        return None
    if not isinstance(wanted, str):
        return _refusing(wanted)
    lowered = wanted.lower()
    holds = search(lowered)
    return lambda row: holds(lower(field(row, name, "")), lowered)


def phrase(wanted: JsonValue, *names: str) -> Test:
    """Contained in one of several fields; all of them are lower-cased."""
    if not wanted:
        return None
    if not isinstance(wanted, str):
        return _refusing(wanted)
    lowered = wanted.lower()
    holds = search(lowered)

    def test(row: JsonValue) -> bool:
        return any([holds(lower(field(row, name, "")), lowered) for name in names])  # noqa: C419 - every field is looked at

    return test


def _refusing(wanted: JsonValue) -> Test:
    # An argument that is no text is refused by the first record, whatever that is.
    return (lambda _: bool(lower(wanted))) if wanted else None


def at_least(name: str, bound: JsonValue, default: JsonValue) -> Test:
    """Drop records below ``bound`` (``lo f a``)."""
    return lambda row: not less(field(row, name, default), bound)


def at_most(name: str, bound: JsonValue, default: JsonValue) -> Test:
    """Drop records above ``bound`` (``hi f a``)."""
    return lambda row: not greater(field(row, name, default), bound)


def since(name: str, date: JsonValue) -> Test:
    """Drop records before a date, if one was asked for; dates compare as text."""
    return at_least(name, date, "") if date else None


def until(name: str, date: JsonValue) -> Test:
    """Drop records after a date, if one was asked for."""
    return at_most(name, date, "") if date else None
