"""What a world changed against its seed, collection by collection. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from ipistate.kernel import JsonArray, JsonObject, JsonValue, identical


if TYPE_CHECKING:
    from collections.abc import Iterator

    from ipistate.kernel import Environment

_WHOLE: Final = ("",)


@attrs.frozen(kw_only=True)
class CollectionChange:
    """The rows of one collection that differ, by id (or by index, in an array).

    A collection that is not there, or that is something else than a table or an array,
    is one row without a name.
    """

    collection: str
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __str__(self) -> str:
        signs = {"+": self.added, "~": self.changed, "-": self.removed}
        told = [f"{sign}{row}" for sign, rows in signs.items() for row in rows]
        return f"{self.collection} {' '.join(told)}"


def changes(seed: Environment, world: Environment) -> tuple[CollectionChange, ...]:
    """Compare two worlds; what they share is skipped, order counts inside rows."""
    return tuple(_collections(seed.document, world.document))


def _collections(old: JsonObject, new: JsonObject) -> Iterator[CollectionChange]:
    for name in dict.fromkeys((*old, *new)):
        if name not in new:
            yield CollectionChange(collection=name, removed=_WHOLE)
        elif name not in old:
            rows = tuple(_rows(new[name])) or _WHOLE
            yield CollectionChange(collection=name, added=rows)
        elif not identical(old[name], new[name]):
            yield _change(name, old[name], new[name])


def _change(name: str, old: JsonValue, new: JsonValue) -> CollectionChange:
    if type(old) is not type(new):
        return CollectionChange(collection=name, changed=_WHOLE)
    before, after = _rows(old), _rows(new)
    added = tuple(row for row in after if row not in before)
    removed = tuple(row for row in before if row not in after)
    changed = tuple(
        row
        for row, value in after.items()
        if row in before and not identical(before[row], value)
    )
    if not (added or removed or changed):
        changed = _WHOLE  # the same rows in another order
    return CollectionChange(
        collection=name, added=added, changed=changed, removed=removed
    )


def _rows(collection: JsonValue) -> JsonObject | dict[str, JsonValue]:
    if isinstance(collection, JsonObject):
        return collection
    if isinstance(collection, JsonArray):
        return {str(index): row for index, row in enumerate(collection)}
    return {"": collection}
