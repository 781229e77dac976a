"""Progress bars: on standard error, and only if that is a terminal."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from ipistate.cli.terminal import stderr_console
from ipistate.cli.texts import one_line


if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from ipistate.cli.files import FileLine


def bar(amount: ProgressColumn) -> Progress:
    """Return a bar that shows what is done, an amount of it, and for how long."""
    console = stderr_console()
    return Progress(
        TextColumn("{task.description:<12}"),
        BarColumn(),
        amount,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        redirect_stdout=False,
    )


class Reading:
    """A bar over the lines of a file, which steps aside for what is written."""

    def __init__(self, progress: Progress, size: int | None) -> None:
        """Begin; ``size`` are the bytes to read, None if that is unknown."""
        self._progress = progress
        self._task = progress.add_task("read", total=size)

    def over(self, lines: Iterable[FileLine]) -> Iterator[FileLine]:
        """Visit the lines; each one is done when the next is asked for."""
        for line in lines:
            yield line
            text = f"line {line.number}"
            self._progress.update(
                self._task, advance=len(line.text) + 1, description=text
            )

    def write(self, lines: Iterable[str]) -> None:
        """Write lines of hostile text to standard output, without the bar in between."""
        told = [*map(one_line, lines)]
        if told:
            self._progress.stop()
            click.echo("\n".join(told))
            self._progress.start()


@contextmanager
def reading(size: int | None) -> Generator[Reading]:
    """Show a bar for as long as a file is read."""
    with bar(TaskProgressColumn()) as progress:
        yield Reading(progress, size)
