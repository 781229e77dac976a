"""Texts of a page: each once in its chunk, in bounded space, with what matters kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias


if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST: Final = 100_000
"""Characters of one text that a page keeps."""

_AROUND: Final = 2_000
"""Characters that are kept before a place that matters."""

Pieces: TypeAlias = "list[str | int]"
"""Parts of a text; a number stands for so many characters that are left out."""


def clipped(text: str, places: Iterable[str] = (), limit: int = LONGEST) -> Pieces:
    """Cut a text to a limit: its beginning, and the first place that matters.

    Args:
        text: The text.
        places: Texts that matter if they occur.
        limit: Characters to keep.
    """
    if len(text) <= limit:
        return [text]
    found = [start for one in places if (start := text.find(one)) >= 0]
    place = min(found, default=0)
    half = limit // 2
    if place <= half:
        return [text[:limit], len(text) - limit]
    start = max(half, place - min(_AROUND, half // 2))
    end = min(len(text), start + half)
    pieces: Pieces = [text[:half], start - half, text[start:end], len(text) - end]
    return [piece for piece in pieces if piece != 0]


class Texts:
    """The texts of a chunk by number; equal ones are kept once."""

    def __init__(self) -> None:
        """Begin with none."""
        self.kept: list[Pieces] = []
        self._numbers: dict[tuple[str | int, ...], int] = {}

    def add(self, text: str, places: Iterable[str] = (), limit: int = LONGEST) -> int:
        """Keep a text, as far as ``clipped`` does, and return its number."""
        pieces = clipped(text, places, limit)
        number = self._numbers.setdefault(tuple(pieces), len(self.kept))
        if number == len(self.kept):
            self.kept.append(pieces)
        return number
