"""JSON on one line, for every reader of lines."""

from __future__ import annotations

from typing import Final


_ENDS: Final = (
    (b"\xc2\x85", rb"\u0085"),
    (b"\xe2\x80\xa8", rb"\u2028"),
    (b"\xe2\x80\xa9", rb"\u2029"),
)
"""What some readers take for the end of a line and JSON leaves raw, and its escapes."""


def json_line(text: bytes) -> bytes:
    """Escape the ends of lines that a JSON text has in its strings; it says the same."""
    if text.isascii():
        return text
    for character, escape in _ENDS:
        # To look for one byte is many times faster, and finds that there is none.
        if character[:1] in text and character[-1:] in text:
            text = text.replace(character, escape)
    return text
