"""What changed between two worlds: operations of JSON Patch, lines for people, counts.

Types and order count as in ``identical``. Parts that both worlds share are
passed over without a look inside, so the diff after a call costs what the call changed.
"""

from __future__ import annotations

from collections import Counter
from itertools import compress
from operator import is_not
from typing import TYPE_CHECKING, TypeAlias

import attrs

from ipistate.errors import json_path
from ipistate.kernel.alignment import gaps
from ipistate.kernel.change import Change
from ipistate.kernel.environment import Environment
from ipistate.kernel.limits import Path
from ipistate.kernel.summaries import amount, html_table, key_text, listing
from ipistate.kernel.values import (
    JsonArray,
    JsonObject,
    JsonValue,
    as_json,
    identical,
    trusted_array,
)


if TYPE_CHECKING:
    from collections.abc import Iterator


@attrs.frozen
class Count:
    """How many entries of a collection came, went and changed."""

    added: int = 0
    removed: int = 0
    changed: int = 0

    def __str__(self) -> str:
        parts = attrs.asdict(self).items()
        return ", ".join(f"{number} {name}" for name, number in parts if number)


@attrs.frozen
class Diff:
    """The operations that turn one value into another, in their order; false if none.

    ``print`` shows its lines, and a notebook a table.
    """

    operations: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.operations)

    def __str__(self) -> str:
        return "\n".join(self.lines()) or "no difference"

    def __repr__(self) -> str:
        total = amount(len(self.operations), "operation")
        counts = (f"{key_text(n)}: {one}" for n, one in self.counts().items())
        return listing(type(self).__name__, (total, *counts), total)

    def _repr_html_(self) -> str:
        rows = ((one.op, json_path(one.path), *one.texts) for one in self.operations)
        heads = ("change", "place", "before", "after")
        return html_table("Difference", heads, rows, len(self.operations))

    def to_patch(self) -> JsonArray:
        """Return the operations as a JSON Patch document (RFC 6902).

        Applied to the first value it gives the second one, order of members included.
        """
        return trusted_array([one.to_document() for one in self.operations])

    def lines(self) -> tuple[str, ...]:
        """Write one line for each operation, such as ``~ $.claims["C-1"].paid: 1 -> 2``.

        Values are shown up to 60 characters; characters that a terminal would obey are
        escaped.
        """
        return tuple(map(str, self.operations))

    def counts(self) -> dict[str | int, Count]:
        """Count by collection the entries that came, went and changed.

        An entry is a member or an element of a collection. A collection that comes or
        goes counts its entries, or 1 if it has none. A member that only moved is
        removed and added by JSON Patch; it counts as changed, once. A document that is
        replaced as a whole has no collections to count by.
        """
        below = [one for one in self.operations if one.path]
        moved = _moved(below)
        changed: set[Path] = set()
        added: Counter[str | int] = Counter()
        removed: Counter[str | int] = Counter()
        for one in below:
            name = one.path[0]
            if one.op == "replace" or len(one.path) > 2 or one.path in moved:
                changed.add(one.path[:2])
            elif one.op == "add":
                added[name] += _entries(one.path, one.value)
            else:
                removed[name] += _entries(one.path, one.old)
        names = dict.fromkeys(one.path[0] for one in below)
        sums = Counter(entry[0] for entry in changed)
        return {name: Count(added[name], removed[name], sums[name]) for name in names}


def _moved(operations: list[Change]) -> set[Path]:
    # An index may be removed and added again, and mean two elements.
    named = [one for one in operations if isinstance(one.path[-1], str)]
    gone = {one.path for one in named if one.op == "remove"}
    return {one.path for one in named if one.op == "add" and one.path in gone}


def _entries(path: Path, value: JsonValue) -> int:
    whole = len(path) == 1 and isinstance(value, JsonObject | JsonArray)
    return max(1, len(value)) if whole else 1  # type: ignore[arg-type]


# A comparison that is still to be made is a step, too.
_Step: TypeAlias = "Change | Iterator[_Step]"


def diff(before: Environment | JsonValue, after: Environment | JsonValue) -> Diff:
    """Compare two worlds, or any two JSON values.

    Equal means what ``identical`` means: order of members counts, and so does the type
    of a number. One changed leaf, one member or element more or less is one operation.
    JSON Patch adds members last, so a member that moved forward is removed and added,
    with all that had to come after it.

    Raises:
        EncodeError: A value is plain Python data that is not JSON.
    """
    operations: list[Change] = []
    # A stack of our own, so that deep worlds do not depend on the interpreter's.
    waiting = [_compared((), _document(before), _document(after))]
    while waiting:
        for step in waiting[-1]:
            if isinstance(step, Change):
                operations.append(step)
            else:
                waiting.append(step)
                break
        else:
            waiting.pop()
    return Diff(tuple(operations))


def _document(value: Environment | JsonValue) -> JsonValue:
    return value.document if isinstance(value, Environment) else as_json(value)


def _compared(path: Path, before: JsonValue, after: JsonValue) -> Iterator[_Step]:
    if before is after:
        return
    if isinstance(before, JsonObject) and isinstance(after, JsonObject):
        yield _members(path, before, after)
    elif isinstance(before, JsonArray) and isinstance(after, JsonArray):
        yield _elements(path, before, after)
    elif not identical(before, after):
        yield Change("replace", path, after, before)


def _members(path: Path, before: JsonObject, after: JsonObject) -> Iterator[_Step]:
    names, wanted = list(before), list(after)
    length = _kept(names, wanted)
    kept, added = wanted[:length], wanted[length:]
    moving = len(before.keys() & added)
    another = len(path) > 1 and not length and len(names) + len(added) > 1
    if path and (moving > length or (another and not moving)):
        # More would move than stay; or nothing stays of an entry. Collections are
        # compared entry by entry even then, to be counted.
        yield Change("replace", path, after, before)
        return
    for name in _without(names, kept):
        yield Change("remove", (*path, name), None, before[name])
    olds = map(before.__getitem__, kept)
    for name in compress(kept, map(is_not, olds, after.values())):
        yield from _compared((*path, name), before[name], after[name])
    for name in added:
        yield Change("add", (*path, name), after[name])


def _kept(names: list[str], wanted: list[str]) -> int:
    # What is added goes last, so only a beginning of the wanted names can stay: the
    # longest one whose names stand in this order.
    if names == wanted[: len(names)]:
        return len(names)
    length = 0
    for name in names:
        if length < len(wanted) and name == wanted[length]:
            length += 1
    return length


def _without(names: list[str], kept: list[str]) -> list[str]:
    if len(names) == len(kept):
        return []
    staying = frozenset(kept)
    return [name for name in names if name not in staying]


def _elements(path: Path, before: JsonArray, after: JsonArray) -> Iterator[_Step]:
    for olds, news in gaps(before, after):
        for old, new in zip(olds, news, strict=False):
            yield from _compared((*path, new), before[old], after[new])
        start, shared = news.start, min(len(olds), len(news))
        # From the last to the first, so that each index is that of the old array.
        for old in reversed(olds[shared:]):
            place = start + old - olds.start
            yield Change("remove", (*path, place), None, before[old])
        for new in news[shared:]:
            yield Change("add", (*path, new), after[new])
