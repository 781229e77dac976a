"""Texts of a page: in bounded space, each once, and nothing in them unseen."""

from __future__ import annotations

import re
import unicodedata

from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeAlias

from markupsafe import Markup, escape


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LONGEST: Final = 100_000
"""Characters of one text that a page keeps."""

_AROUND: Final = 2_000
"""Characters that are kept before a place that matters."""

Pieces: TypeAlias = "list[str | int]"
"""Parts of a text; a number stands for so many characters that are left out."""

_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_OTHERS: Final = re.compile(
    "[\u00a0\u034f\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200a\u202f\u205f"
    "\u2800\u3000\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Spaces other than the common one, fillers, joiners and variation selectors."""

_BREAK: Final = Markup("<wbr>")


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


# Characters that cannot be seen, or that make others stand where they are not.


def is_invisible(character: str) -> bool:
    """Tell whether a reader would not see a character, or see others moved by it."""
    if character in "\n\t":
        return False
    category = unicodedata.category(character)
    return category in _CATEGORIES or _OTHERS.match(character) is not None


def visible(text: object) -> Markup:
    """Escape a text for markup, apart from its surroundings, and name what is unseen."""
    pieces = Markup().join(_pieces(str(text)))
    return Markup("<bdi>{}</bdi>").format(pieces)


def spelled(text: object) -> str:
    """Name what is unseen in a text that takes no markup, such as a title."""
    return "".join(f"[{_code(one)}]" if is_invisible(one) else one for one in str(text))


def _pieces(text: str) -> Iterator[Markup]:
    for one, equal in groupby(text):
        count = sum(1 for _ in equal)
        if is_invisible(one):
            times = f" \u00d7{count}" if count > 1 else ""
            yield Markup('<span class="unseen" title="{}">{}{}</span>').format(
                unicodedata.name(one, "control character"), _code(one), times
            )
        else:
            # A long name of words may be broken between them.
            yield escape(one * count) + (_BREAK if one == "_" else "")


def _code(character: str) -> str:
    return f"U+{ord(character):04X}"
