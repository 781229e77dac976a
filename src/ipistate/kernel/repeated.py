"""Members that occur more than once in an object of a JSON text.

Parsers keep the last of them, and which one was meant is not known.
"""

from __future__ import annotations

import json

from collections import Counter
from typing import TYPE_CHECKING, Any

from ipistate.errors import DecodeError, json_path
from ipistate.kernel.limits import is_array


if TYPE_CHECKING:
    from collections.abc import Iterator


class _Members(dict[str, Any]):
    """An object of a JSON text that remembers which of its names were repeated."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated: list[str] = []
        if len(self) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            self.repeated = [name for name in self if counts[name] > 1]


def repeated_members(text: bytes | str) -> Iterator[tuple[str | int, ...]]:
    """Visit the paths of members that are repeated, outer ones before inner ones.

    Raises:
        ValueError: The text is not JSON.
        RecursionError: It is nested too deeply to be read at all.
    """
    # A stack of its own: what the parser can read may be deeper than calls can be.
    rest: list[tuple[tuple[str | int, ...], Any]]
    rest = [((), json.loads(text, object_pairs_hook=_Members))]
    while rest:
        path, value = rest.pop()
        if isinstance(value, _Members):
            yield from ((*path, name) for name in value.repeated)
            rest += [((*path, name), part) for name, part in value.items()][::-1]
        elif is_array(value):
            rest += [((*path, index), part) for index, part in enumerate(value)][::-1]


def refuse_repeated_members(text: bytes | str) -> None:
    """Refuse a JSON text in which a member stands more than once.

    Raises:
        DecodeError: ``duplicate_key``, with the path of the first one.
    """
    path = next(repeated_members(text), None)
    if path is not None:
        message, where = "the key occurs more than once", json_path(path)
        raise DecodeError("duplicate_key", message, where)
