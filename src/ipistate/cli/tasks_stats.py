"""``ipistate tasks stats``: how the rows of a task file are distributed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import click

from ipistate.cli.exits import LEGEND, refusing
from ipistate.cli.files import numbered_lines, size_of
from ipistate.cli.options import AS_JSON
from ipistate.cli.progress import reading
from ipistate.cli.terminal import amount, emit, stdout_console, table
from ipistate.generate import RowTally
from ipistate.scoring import Task


if TYPE_CHECKING:
    from ipistate.generate import Statistics


@click.command("stats", epilog=LEGEND)
@click.argument("file")
@AS_JSON
def command(*, file: str, as_json: bool) -> None:
    """Count the rows of a task FILE by their labels (- reads standard input).

    Rows by domain, strategy, difficulty, category, vector, verification type and target
    tool; sizes; and how many rows repeat an earlier one, its prompt, or its injection.

    \b
      ipistate tasks stats tasks.jsonl
    """
    tally = RowTally()
    with reading(size_of(file)) as progress:
        for line in progress.over(numbered_lines(file)):
            with refusing(f"{file}, line {line.number}"):
                tally.add(Task.from_json(line.text))
    found = tally.statistics()
    if as_json:
        emit({"file": file, **attrs.asdict(found)})
    else:
        _print(found)


def _print(found: Statistics) -> None:
    console = stdout_console()
    click.echo(amount(found.rows, "row"))
    for label, values in found.counts.items():
        lines = [
            [n, str(rows), f"{100 * rows / found.rows:.1f} %"]
            for n, rows in values.items()
        ]
        click.echo()
        console.print(table([label, "rows", "share"], lines, numbers=(1, 2)))
    click.echo()
    heads = ["size", "smallest", "median", "largest"]
    sizes = [[name, *attrs.astuple(one)] for name, one in found.sizes.items()]
    console.print(table(heads, sizes, numbers=(1, 2, 3)))
    repeated = [f"{rows} {name}" for name, rows in found.duplicates.items()]
    click.echo(f"\nrepeated: {', '.join(repeated)}".replace("_", " "))
