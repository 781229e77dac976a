"""What people see: tables on standard output, progress and notes on standard error.

Texts from worlds and models may be hostile, so ``plain`` takes every character
out of them that a terminal would obey.
"""

from __future__ import annotations

import sys

from typing import TYPE_CHECKING, Any, Final

import click

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ipistate.kernel import encode, freeze


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PIPE_WIDTH: Final = 1000
"""Wide enough that nothing is cut off or wrapped where no terminal is."""

_BIDI: Final = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


def plain(text: str) -> str:
    """Write control, direction and surrogate characters as escapes; keep newlines."""
    return "".join(_shown(character) for character in text)


def one_line(text: str) -> str:
    """Write as ``plain`` does, newlines as well: no text can add a line of its own."""
    return plain(text).replace("\n", "\\n")


def _shown(character: str) -> str:
    if character == "\n" or (character.isprintable() and character not in _BIDI):
        return character
    return ascii(character)[1:-1]


def amount(number: int, one: str, many: str | None = None) -> str:
    """Write how many there are of something, ``many`` being its plural."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def emit(document: object) -> None:
    """Write one JSON document to standard output."""
    click.echo(encode(freeze(document)))


def note(text: str) -> None:
    """Write a line to standard error."""
    click.echo(plain(text), err=True)


def stdout_console() -> Console:
    """Return a console for data; colours only on a terminal that wants them."""
    return Console(
        file=sys.stdout,
        width=None if sys.stdout.isatty() else PIPE_WIDTH,
        highlight=False,
        markup=False,
    )


def stderr_console() -> Console:
    """Return a console for progress."""
    return Console(file=sys.stderr, highlight=False, markup=False)


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Iterable[int] = (),
) -> Table:
    """Build a table of plain texts; ``numbers`` are the columns to align right."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    right = frozenset(numbers)
    for index, head in enumerate(heads):
        made.add_column(
            head, justify="right" if index in right else "left", overflow="fold"
        )
    for row in rows:
        made.add_row(*[_cell(value) for value in row])
    return made


def _cell(value: Any) -> Text:
    return value if isinstance(value, Text) else Text(plain(str(value)))
