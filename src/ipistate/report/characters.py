"""Characters that cannot be seen, or that make others stand where they are not."""

from __future__ import annotations

import re
import unicodedata

from itertools import groupby
from typing import TYPE_CHECKING, Final

from markupsafe import Markup, escape


if TYPE_CHECKING:
    from collections.abc import Iterator

_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_OTHERS: Final = re.compile(
    "[\u00a0\u034f\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200a\u202f\u205f"
    "\u2800\u3000\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Spaces other than the common one, fillers, joiners and variation selectors."""

_BREAK: Final = Markup("<wbr>")


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
