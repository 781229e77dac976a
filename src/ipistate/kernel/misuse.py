"""Refusals of what a caller wrote: another kind of argument, and what to write instead.

Type checkers find these mistakes, but not everybody has one. They are errors of a
program and not of its data, hence a plain ``TypeError``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from ipistate.errors import preview


T = TypeVar("T")

_LISTS: Final = (list, tuple)
_WHOLE: Final = (str, bytes, Mapping)
"""Iterables that are one thing."""


def misused(what: str, value: object, instead: str) -> TypeError:
    """Make the error about an argument.

    Args:
        what: What is expected, as a beginning: ``call_tool() takes an Environment``.
        value: What was given.
        instead: What to write.
    """
    kind = type(value).__name__
    shown = kind if preview(value).startswith(kind) else f"{kind} {preview(value)}"
    return TypeError(f"{what}, not {shown}; write {instead}")


def listed(values: Iterable[T], what: str, instead: str) -> tuple[T, ...]:
    """Return the elements of an iterable that is meant to have several.

    Raises:
        TypeError: It is a text, whose elements are letters, or a mapping, whose elements
            are names; or it has no elements at all.
    """
    if not _is_several(values):
        raise misused(what, values, instead)
    return tuple(values)


def _is_several(values: object) -> bool:
    # Nearly always one of these, and to ask for an abstract class takes its time.
    if isinstance(values, _LISTS):
        return True
    return isinstance(values, Iterable) and not isinstance(values, _WHOLE)
