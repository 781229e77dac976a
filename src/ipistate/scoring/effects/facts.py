"""What changes come to: fields that have a value, collections with a new entry."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

from ipistate.kernel import JsonArray, JsonObject, JsonValue, encode, trusted_object
from ipistate.scoring.renaming import MINTED


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ipistate.kernel import Change, Environment
    from ipistate.scoring.matching import Matcher

Path: TypeAlias = tuple[str | int, ...]
Place: TypeAlias = tuple[str, Path]
"""Kind and path of a fact."""

LONGEST: Final = 120
"""Characters of JSON text that a report shows of a value."""

FREE_TEXT: Final = frozenset(
    {
        *("body", "comment", "comments", "content", "description", "feedback"),
        *("findings", "info", "instructions", "message", "note", "notes", "reason"),
        *("recommendations", "requirements", "subject", "summary", "text", "title"),
    }
)
"""Last words of the names of members that an agent words as it likes."""


@attrs.frozen
class Fact:
    """Something that holds after a change and did not before."""

    kind: Literal["field", "entry", "gone"]
    path: Path
    """Of the field; of the collection that has a new entry; of what is gone."""
    value: JsonValue = None
    """Of an entry that is a record: its members without an id that was minted."""
    open: frozenset[str] = frozenset()
    """Names of an entry's further members, whose values are not known."""


@attrs.frozen
class TracedWrite:
    """A call of a trace that changed the world."""

    call: int
    """Number of the call in the trace, from 0."""
    tool: str
    before: Environment
    after: Environment
    operations: tuple[Change, ...]

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """What holds since then."""
        return facts_of(self.operations)


def shown(value: JsonValue) -> str:
    """Write a value as JSON text in bounded space."""
    text = encode(value).decode()
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def is_free_text(name: str | int | None, value: JsonValue) -> bool:
    """Tell whether a member holds free text: several words under a name for text.

    A status of two words is none, nor is a person's name.
    """
    last = name.rpartition("_")[2] if isinstance(name, str) else None
    return last in FREE_TEXT and isinstance(value, str) and len(value.split()) > 1


def facts_of(operations: Iterable[Change]) -> tuple[Fact, ...]:
    """Reduce the operations of a diff to facts."""
    return tuple(fact for one in operations for fact in _facts(one))


def _facts(one: Change) -> Iterator[Fact]:
    if one.op == "remove":
        yield Fact("gone", one.path)
    elif one.op == "add":
        yield from _added(one.path, one.value)
    else:
        yield Fact("field", one.path, one.value)


def _added(path: Path, value: JsonValue) -> Iterator[Fact]:
    level = len(path)
    if path and isinstance(path[-1], int):
        yield Fact("entry", path[:-1], _listed(value))
    elif isinstance(value, JsonArray) and level <= 2:
        yield from (Fact("entry", path, _listed(element)) for element in value)
    elif isinstance(value, JsonObject) and level <= 1:
        for name, member in value.items():
            yield from _added((*path, name), member)
    elif isinstance(value, JsonObject) and level == 2:
        yield Fact("entry", path[:1], _without(value, path[1]))
    else:
        yield Fact("field", path, value)


def _listed(value: JsonValue) -> JsonValue:
    # An id that a tool mints for an element of an array is its first member.
    if isinstance(value, JsonObject) and value:
        return _without(value, next(iter(value.values())))
    return value


def _without(row: JsonObject, row_id: JsonValue) -> JsonObject:
    if not isinstance(row_id, str) or not MINTED.fullmatch(row_id):
        return row
    return trusted_object({n: member for n, member in row.items() if member != row_id})


def common(left: Iterable[Fact], right: Iterable[Fact]) -> tuple[Fact, ...]:
    """Keep of two runs of one call the facts, and members of entries, that agree."""
    pairs = zip(left, right, strict=False)
    return tuple(fact for one, other in pairs for fact in _common(one, other))


def _common(one: Fact, other: Fact) -> Iterator[Fact]:
    if one == other:
        yield one
    elif (one.kind, one.path) == (other.kind, other.path) and one.kind == "entry":
        left, right = one.value, other.value
        if isinstance(left, JsonObject) and isinstance(right, JsonObject):
            agreed = {n: m for n, m in left.items() if n in right and right[n] == m}
            if agreed:
                others = (left.keys() & right.keys()) - agreed.keys()
                known = trusted_object(agreed)
                yield attrs.evolve(one, value=known, open=frozenset(others))


def by_place(facts: Iterable[Fact]) -> Mapping[Place, list[Fact]]:
    """Sort facts by what can be compared at all: the same kind at the same path."""
    found: dict[Place, list[Fact]] = {}
    for fact in facts:
        found.setdefault((fact.kind, fact.path), []).append(fact)
    return found


def includes(found: Fact, wanted: Fact, matcher: Matcher) -> bool:
    """Tell whether a fact says at least as much as a wanted one."""
    if (found.kind, found.path) != (wanted.kind, wanted.path):
        return False
    got, want = found.value, wanted.value
    if wanted.kind == "entry" and isinstance(want, JsonObject):
        return (
            isinstance(got, JsonObject)
            and wanted.open <= got.keys()
            and all(n in got and matcher.alike(want[n], got[n]) for n in want)
        )
    return matcher.alike(want, got)
