"""Equal parts of the values that are read one after the other, as one object each.

Worlds of one task repeat each other, also after sessions have changed them: most records
stay as they were. Values are immutable, so nothing can tell a shared part from a copy;
only memory shows the difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

import orjson

from ipistate.kernel.limits import is_array, is_object
from ipistate.kernel.values import JsonObject, freeze


if TYPE_CHECKING:
    from collections.abc import Iterator

    from ipistate.kernel.codec import Adopt
    from ipistate.kernel.values import JsonArray, JsonValue

    _Collection: TypeAlias = JsonObject | JsonArray


class SharedParts:
    """The worlds that have been read, and their parts; they live as long as this does.

    An equal world is found by the hash of its text. Of another one that is like a known
    world the equal collections and records are shared: a collection is like a known one
    if the first or the last record is the same.
    """

    def __init__(self) -> None:
        self._worlds: dict[int, JsonObject] = {}
        self._collections: dict[int, _Collection] = {}

    def adopting(self, adopt: Adopt) -> Adopt:
        """Return an ``adopt`` for ``decode_as`` that prefers what is known.

        A tree of the exact parser is left alone: it may hold numbers that the text of a
        tree of the fast parser cannot tell apart.
        """
        return adopt if adopt is freeze else lambda tree: self._adopt(tree, adopt)

    def _adopt(self, tree: Any, adopt: Adopt) -> JsonValue:
        text = _text(tree) if is_object(tree) else None
        if text is None:
            return adopt(tree)
        known = self._worlds.get(hash(text))
        if known is not None and orjson.dumps(known) == text:
            # Its text is a checked value's, so what is left needs no look.
            tree.clear()
            return known
        marks = {name: tuple(_marks(name, part)) for name, part in tree.items()}
        for name, found in marks.items():
            tree[name] = self._resembling(tree[name], found)
        world = cast("JsonObject", adopt(tree))
        self._worlds[hash(text)] = world
        for name, found in marks.items():
            collection = cast("_Collection", world[name])
            for mark in found:
                self._collections.setdefault(mark, collection)
        return world

    def _resembling(self, part: Any, marks: tuple[int, ...]) -> Any:
        known: Any = next(filter(None, map(self._collections.get, marks)), None)
        if known is None or is_object(part) != is_object(known):
            return part
        if orjson.dumps(known) == orjson.dumps(part):
            return known
        if is_object(part):
            for name, record in part.items():
                part[name] = _same(record, known.get(name))
        else:
            part[: len(known)] = map(_same, part, known)
        return part


def _same(record: Any, known: Any) -> Any:
    # Equality alone takes 1, 1.0 and true for one value, and ignores the order of names.
    if record == known and orjson.dumps(record) == orjson.dumps(known):
        return known
    return record


def _marks(name: str, part: Any) -> Iterator[int]:
    if part and is_object(part):
        first, last = next(iter(part.items())), next(reversed(part.items()))
    elif part and is_array(part):
        first, last = ("", part[0]), ("", part[-1])
    else:
        return
    for place, (key, record) in enumerate((first, last)):
        yield hash((name, place, key, orjson.dumps(record)))


def _text(tree: dict[str, Any]) -> bytes | None:
    try:
        return orjson.dumps(tree)
    except TypeError:
        return None
