"""Live episodes by their key: an immutable map that counts what blocks a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import chain
from typing import Final

import attrs


class StepState(StrEnum):
    """Where a live episode stands (docs/explanation/protocol.md)."""

    RUNNING = "running"
    WAIT_STEP = "wait_step"
    REPLAY_STEP = "replay_step"
    PARKED = "parked"


_CAPTURED: Final = frozenset({StepState.PARKED, StepState.REPLAY_STEP})
"""In these states the recorded boundary says how the episode can be continued."""


@attrs.frozen(kw_only=True)
class EpisodeEntry:
    """One live episode."""

    state: StepState = StepState.RUNNING
    has_step_ended: bool = False
    """In ``replay_step``: it ended while a checkpoint was open; a boundary follows."""
    boundary: object = None
    """The latest one, None to start over."""
    is_restart: bool = False
    becomes_restart: bool = False
    """When admission opens; until then its task waits."""
    is_retired: bool = False
    is_finishing: bool = False
    due: float | None = None
    """When its time is up, while it runs."""
    left: float | None = None
    """Seconds that are left, while its time does not run."""

    @property
    def blocks(self) -> bool:
        """A checkpoint waits for this episode."""
        if self.is_retired:
            return True
        return not self.is_restart and self.state not in _CAPTURED

    @property
    def is_exported(self) -> bool:
        """A checkpoint records this episode's boundary."""
        excluded = self.is_retired or self.is_restart
        return not excluded and self.state in _CAPTURED

    @property
    def is_reported_restart(self) -> bool:
        """A checkpoint names this episode instead of recording it."""
        return self.is_restart and not self.is_retired


_PIECES: Final = 127
"""A prime: keys that count up are spread evenly."""

_EMPTY: Final[Mapping[str, EpisodeEntry]] = {}


@attrs.frozen(eq=False, repr=False)
class LiveEpisodes(Mapping[str, EpisodeEntry]):
    """Read like any mapping, in no particular order; ``put`` and ``without`` change it.

    A plain dict would be copied on every event, which is quadratic when thousands of
    episodes are live. A change copies one of many small pieces.
    """

    _pieces: tuple[Mapping[str, EpisodeEntry], ...] = (_EMPTY,) * _PIECES
    _count: int = 0
    blocking: int = 0
    """How many block; counted, because a prepare asks after every event."""

    def put(self, key: str, entry: EpisodeEntry) -> LiveEpisodes:
        """Return the map with an episode added or replaced."""
        place = _place(key)
        before = self._pieces[place].get(key)
        return LiveEpisodes(
            self._with(place, {**self._pieces[place], key: entry}),
            self._count + (before is None),
            self.blocking + entry.blocks - (before is not None and before.blocks),
        )

    def updated(self, entries: Mapping[str, EpisodeEntry]) -> LiveEpisodes:
        """Return the map with many episodes replaced at once."""
        pieces = [dict(piece) for piece in self._pieces]
        for key, entry in entries.items():
            pieces[_place(key)][key] = entry
        blocking = sum(
            entry.blocks - self[key].blocks for key, entry in entries.items()
        )
        return LiveEpisodes(tuple(pieces), self._count, self.blocking + blocking)

    def without(self, key: str) -> LiveEpisodes:
        """Return the map without an episode that is in it."""
        place = _place(key)
        rest = dict(self._pieces[place])
        blocks = rest.pop(key).blocks
        pieces = self._with(place, rest)
        return LiveEpisodes(pieces, self._count - 1, self.blocking - blocks)

    def _with(
        self, place: int, piece: Mapping[str, EpisodeEntry]
    ) -> tuple[Mapping[str, EpisodeEntry], ...]:
        return (*self._pieces[:place], piece, *self._pieces[place + 1 :])

    def __getitem__(self, key: str) -> EpisodeEntry:
        return self._pieces[_place(key)][key]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._pieces)

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"LiveEpisodes({dict(self)!r})"


def _place(key: str) -> int:
    # Not hash(): a value that was pickled is read by a process with other hashes.
    return int.from_bytes(key.encode("utf-8", "surrogatepass"), "big") % _PIECES
