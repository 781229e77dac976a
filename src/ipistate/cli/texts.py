"""Hostile texts made harmless: those of worlds, models and file names."""

from __future__ import annotations

import re

from typing import Final


# A JSON text has these inside strings only, where an escape says the same: delete and
# C1, the marks of direction, the separators of lines.
_OBEYED: Final = re.compile(
    rb"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]"
)


def plain(text: str) -> str:
    """Write control, direction and surrogate characters as escapes; keep newlines."""
    return "\n".join(map(_escaped, text.split("\n")))


def one_line(text: str) -> str:
    """Write as ``plain`` does, newlines as well: no text can add a line of its own."""
    return plain(text).replace("\n", "\\n")


def plain_json(text: bytes) -> bytes:
    """Write a JSON text without characters that a terminal obeys, its value unchanged."""
    return _OBEYED.sub(_json_escape, text)


def shown(source: str) -> str:
    """Name an input as messages do."""
    return "standard input" if source == "-" else one_line(source)


def _escaped(line: str) -> str:
    # Marks of direction are not printable, either.
    return line if line.isprintable() else "".join(map(_shown, line))


def _shown(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]


def _json_escape(found: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(found[0].decode())
