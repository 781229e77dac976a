"""Lines of a file that should be JSON Lines: bounded, and refused if it is another form."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Final

from ipistate.errors import IpiStateError


if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_LINE: Final = 256 * 2**20
"""Bytes of a line beyond which a file is taken to be something else."""

_HEAD: Final = 2**16

_FORMS: Final = (
    (b"\x1f\x8b", "gzip; unpack it first, as with gzip -dc"),
    (b"BZh", "bzip2; unpack it first"),
    (b"\xfd7zXZ\x00", "xz; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "zstd; unpack it first"),
    (b"PK\x03\x04", "a ZIP archive; unpack it first"),
    (b"PAR1", "Parquet; convert it first"),
    (b"\xff\xfe", "UTF-16; save it as UTF-8"),
    (b"\xfe\xff", "UTF-16; save it as UTF-8"),
    (b"\x00", "binary data"),
    (b"<", "HTML or XML: perhaps a page was saved in its place"),
)
"""How a file begins that is something else, and what to do about it."""


class LineFormError(IpiStateError):
    """A file is not JSON Lines: ``not_json_lines`` or ``line_too_long``."""


def bounded_lines(file: BinaryIO, longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """Read a file's lines, ends included, each in bounded memory.

    Args:
        file: Read from where it stands; it may be a pipe.
        longest: Bytes that a line may have, its end included.

    Raises:
        LineFormError: ``not_json_lines``: its beginning is that of another form, which
            the message names. ``line_too_long``, with the line's number.
        OSError: It cannot be read.
    """
    number, begun = 0, False
    while line := file.readline(min(_HEAD, longest)):
        number += 1
        if not begun and line.strip():
            begun = True
            _check_form(number, line)
        if not line.endswith(b"\n") and len(line) == min(_HEAD, longest):
            line += file.readline(longest - len(line) + 1)
            if len(line) > longest:
                message = f"line {number}: longer than {longest} bytes"
                raise LineFormError(
                    "line_too_long", f"{message}: this is no JSON Lines file"
                )
        yield line


def _check_form(number: int, line: bytes) -> None:
    text = line.lstrip()
    found = next((name for start, name in _FORMS if text.startswith(start)), None)
    if text.rstrip() == b"[":
        found = "a JSON array over several lines; write each row on one line"
    if found is not None:
        message = f"line {number}: this is not JSON Lines but {found}"
        raise LineFormError("not_json_lines", message)
