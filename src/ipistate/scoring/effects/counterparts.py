"""Which facts of two worlds have no counterpart in the other one."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, TypeAlias

from ipistate.kernel import JsonObject, JsonValue
from ipistate.scoring.effects.facts import Fact, is_free_text


if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from ipistate.scoring.matching import Matcher

_Prose: TypeAlias = "bool | tuple[tuple[str, _Prose], ...]"
"""Whether a value is free text, or which of its members are or hold some."""

_Index: TypeAlias = "Mapping[Hashable, deque[int]]"

_READING: Final = 200
"""Units of work that it takes to sort a fact."""


def unmatched(
    wanted: Iterable[Fact], found: Iterable[Fact], matcher: Matcher
) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """Pair facts of two worlds; return those of each side that have no counterpart.

    A counterpart is of the same kind, at the same path, and equal in effect mode; free
    text (``is_free_text``) only has to be some text there. Equal ones are paired first,
    so that free text takes no other fact's counterpart.

    Raises:
        TooMuchWorkError: ``too_much_work``: free text stands in too many ways.
    """
    missing, beyond = list(wanted), list(found)
    for prose_of in (_none, _prose_of):
        missing, beyond = _paired(missing, beyond, prose_of, matcher)
    return tuple(missing), tuple(beyond)


def _paired(
    wanted: list[Fact],
    found: list[Fact],
    prose_of: Callable[[Fact], _Prose],
    matcher: Matcher,
) -> tuple[list[Fact], list[Fact]]:
    missing: list[Fact] = []
    taken: set[int] = set()
    indices: dict[_Prose, _Index] = {}
    for want in wanted:
        prose = prose_of(want)
        if prose not in indices:
            indices[prose] = _sorted(found, prose, matcher)
        waiting = indices[prose].get(_key(want, prose, matcher), deque())
        while waiting and waiting[0] in taken:
            waiting.popleft()
        if waiting:
            taken.add(waiting.popleft())
        else:
            missing.append(want)
    return missing, [got for place, got in enumerate(found) if place not in taken]


def _sorted(found: Sequence[Fact], prose: _Prose, matcher: Matcher) -> _Index:
    index: dict[Hashable, deque[int]] = {}
    for place, got in enumerate(found):
        matcher.budget.spend(_READING)
        index.setdefault(_key(got, prose, matcher), deque()).append(place)
    return index


def _key(fact: Fact, prose: _Prose, matcher: Matcher) -> Hashable:
    return fact.kind, fact.path, _likeness(fact.value, prose, matcher)


def _likeness(value: JsonValue, prose: _Prose, matcher: Matcher) -> Hashable:
    # Equal for two values that are alike but for what is free text of the wanted one.
    if prose is True:
        return isinstance(value, str) and bool(value.strip())
    if not prose or not isinstance(value, JsonObject):
        return matcher.read(value).key
    inner = dict(prose)
    return frozenset(
        (name, _likeness(member, inner.get(name, False), matcher))
        for name, member in value.items()
    )


def _none(_: Fact) -> _Prose:
    return False


def _prose_of(fact: Fact) -> _Prose:
    names = [part for part in fact.path if isinstance(part, str)]
    return _prose(fact.value, names[-1] if names else None)


def _prose(value: JsonValue, name: str | None) -> _Prose:
    if not isinstance(value, JsonObject):
        return is_free_text(name, value)
    held = ((n, _prose(member, n)) for n, member in value.items())
    return tuple(sorted((n, inner) for n, inner in held if inner)) or False
