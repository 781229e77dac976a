"""What people see: tables on standard output, progress and notes on standard error.

Texts from worlds and models may be hostile; all of them go through ``texts``.
"""

from __future__ import annotations

import sys

from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, Final

import click

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ipistate.cli.texts import one_line, plain_json
from ipistate.kernel import encode, freeze


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_AT_ONCE: Final = 1000

PIPE_WIDTH: Final = 1000
"""Wide enough that nothing is cut off or wrapped where no terminal is."""


def amount(number: int, one: str, many: str | None = None) -> str:
    """Write how many there are of something, ``many`` being its plural."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def emit(document: object) -> None:
    """Write one JSON document to standard output."""
    emit_json(encode(freeze(document)))


def emit_json(text: bytes) -> None:
    """Write a JSON text to standard output, as a line."""
    click.echo(plain_json(text))


def write_lines(lines: Iterable[str]) -> None:
    """Write hostile texts to standard output, a line each, many at a time."""
    told = iter(lines)
    while some := [*islice(told, _AT_ONCE)]:
        click.echo("\n".join(map(one_line, some)))


def note(text: str) -> None:
    """Write a line to standard error."""
    click.echo(one_line(text), err=True)


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


def print_fitting(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table whose last columns give way on a terminal that is too narrow."""
    console = stdout_console()
    widths = [
        max(len(one_line(str(cell))) for cell in column)
        for column in zip(heads, *rows, strict=True)
    ]
    ends = accumulate(width + 1 for width in widths)
    fitting = sum(end - 1 <= console.width for end in ends) or 1
    console.print(table(heads[:fitting], [row[:fitting] for row in rows]))
    if fitting < len(heads):
        left = ", ".join(heads[fitting:])
        note(f"not shown for want of room: {left}; --json has everything")


def _cell(value: Any) -> Text:
    return value if isinstance(value, Text) else Text(one_line(str(value)))
