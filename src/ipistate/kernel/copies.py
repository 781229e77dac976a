"""Path copies: each gives a container with one place changed that shares all the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ipistate.kernel.values import (
    JsonArray,
    JsonObject,
    JsonValue,
    fill_array,
    fill_object,
)


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_set_member: Final[Callable[[dict[str, Any], str, Any], None]] = dict[
    str, Any
].__setitem__
_set_element: Final[Callable[[list[Any], int, Any], None]] = list[Any].__setitem__
_append: Final[Callable[[list[Any], Any], None]] = list[Any].append


def with_member(
    members: Mapping[str, JsonValue], name: str, value: JsonValue
) -> JsonObject:
    """Copy an object of frozen values with one member set.

    A name that is there keeps its position, a new one goes last.
    """
    new = dict.__new__(JsonObject)
    fill_object(new, members)
    _set_member(new, name, value)
    return new


def with_members(
    members: Mapping[str, JsonValue], changes: Mapping[str, JsonValue]
) -> JsonObject:
    """Copy an object of frozen values with several members set, one after another."""
    new = dict.__new__(JsonObject)
    fill_object(new, members)
    fill_object(new, changes)
    return new


def with_element(
    elements: Iterable[JsonValue], index: int, value: JsonValue
) -> JsonArray:
    """Copy an array of frozen values with the element at a valid index set."""
    new = list.__new__(JsonArray)
    fill_array(new, elements)
    _set_element(new, index, value)
    return new


def with_addition(elements: Iterable[JsonValue], value: JsonValue) -> JsonArray:
    """Copy an array of frozen values with one more at its end."""
    new = list.__new__(JsonArray)
    fill_array(new, elements)
    _append(new, value)
    return new
