"""Ids that callers choose themselves, as keys of a table.

JSON has string keys only. Where the reference would keep the number 5 as a key until it
is written, the key is its JSON text from the start, because a world is JSON at every
moment (docs/reference/differences.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipistate.kernel import render


if TYPE_CHECKING:
    from ipistate.kernel import JsonValue


def json_key(container: JsonValue, key: JsonValue) -> JsonValue:
    """Turn a number or boolean into the key it has in an object, else leave it."""
    if isinstance(container, dict) and isinstance(key, int | float):
        return render(key)
    return key
