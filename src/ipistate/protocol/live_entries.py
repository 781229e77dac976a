"""What is live in a participant, by its key: an immutable map that counts what blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final, Generic, Protocol, TypeVar

import attrs


_PIECES: Final = 127
"""A prime: keys that count up are spread evenly."""

_EMPTY: Final[Mapping[str, Any]] = {}


class Blocking(Protocol):
    """What a checkpoint may have to wait for."""

    @property
    def blocks(self) -> bool:
        """Whether it does."""
        ...


E = TypeVar("E", bound=Blocking)


@attrs.frozen(eq=False, repr=False)
class LiveEntries(Mapping[str, E], Generic[E]):
    """Read like any mapping, in no particular order; ``put`` and ``without`` change it.

    A plain dict would be copied on every event, which is quadratic when thousands of
    entries are live. A change copies one of many small pieces.
    """

    _pieces: tuple[Mapping[str, E], ...] = (_EMPTY,) * _PIECES
    _count: int = 0
    blocking: int = 0
    """How many block; counted, because a prepare asks after every event."""

    def put(self, key: str, entry: E) -> LiveEntries[E]:
        """Return the map with an entry added or replaced."""
        place = _place(key)
        before = self._pieces[place].get(key)
        return LiveEntries(
            self._with(place, {**self._pieces[place], key: entry}),
            self._count + (before is None),
            self.blocking + entry.blocks - (before is not None and before.blocks),
        )

    def updated(self, entries: Mapping[str, E]) -> LiveEntries[E]:
        """Return the map with many entries replaced at once."""
        pieces = [dict(piece) for piece in self._pieces]
        for key, entry in entries.items():
            pieces[_place(key)][key] = entry
        blocking = sum(
            entry.blocks - self[key].blocks for key, entry in entries.items()
        )
        return LiveEntries(tuple(pieces), self._count, self.blocking + blocking)

    def without(self, key: str) -> LiveEntries[E]:
        """Return the map without an entry that is in it."""
        place = _place(key)
        rest = dict(self._pieces[place])
        blocks = rest.pop(key).blocks
        pieces = self._with(place, rest)
        return LiveEntries(pieces, self._count - 1, self.blocking - blocks)

    def _with(self, place: int, piece: Mapping[str, E]) -> tuple[Mapping[str, E], ...]:
        return (*self._pieces[:place], piece, *self._pieces[place + 1 :])

    def __getitem__(self, key: str) -> E:
        return self._pieces[_place(key)][key]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._pieces)

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"LiveEntries({dict(self)!r})"


def _place(key: str) -> int:
    # Not hash(): a value that was pickled is read by a process with other hashes.
    return int.from_bytes(key.encode("utf-8", "surrogatepass"), "big") % _PIECES
