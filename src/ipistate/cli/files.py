"""Reading what a verb is given: whole files, JSON Lines, task rows."""

from __future__ import annotations

import sys

from contextlib import nullcontext, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, TypeVar

import click

from ipistate.cli.exits import RefusedInputError, refusing
from ipistate.cli.terminal import amount
from ipistate.cli.texts import shown
from ipistate.scoring import Task, TaskIndex
from ipistate.storage import LONGEST_LINE, bounded_lines


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

T = TypeVar("T")

MOST_COPIED: Final = 8 * 2**30
"""Bytes of a pipe that are kept in a file, to be read more than once."""


class FileLine(NamedTuple):
    """A line of a file that is not empty."""

    number: int
    text: bytes


def read_file(name: str, *, most: int = LONGEST_LINE) -> bytes:
    """Read a file, or standard input if its name is ``-``.

    Args:
        name: The file, or ``-``.
        most: Bytes beyond which it is taken to be something else, or to have no end.

    Raises:
        RefusedInputError: It cannot be read, or is too long.
    """
    with refusing(name), _opened(name) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise RefusedInputError(f"{shown(name)}: longer than {most} bytes")
    return data


def rereadable(path: Path) -> Path:
    """Return a file that can be read again: this one, or a copy of what a pipe gives.

    The copy is removed when the verb ends.

    Raises:
        RefusedInputError: It is not JSON Lines, or cannot be read or kept.
    """
    name = str(path)
    with refusing(name):
        if not path.exists() or path.is_file() or path.is_dir():
            return path
        copy = NamedTemporaryFile(prefix="ipistate-", suffix=".jsonl")  # noqa: SIM115
        click.get_current_context().call_on_close(copy.close)
        with path.open("rb") as file:
            for line in bounded_lines(file, LONGEST_LINE):
                copy.write(line)
                if copy.tell() > MOST_COPIED:
                    message = f"a pipe with more than {MOST_COPIED} bytes; use a file"
                    raise RefusedInputError(f"{shown(name)}: {message}")
        copy.flush()
    return Path(copy.name)


def check_one_stdin(*names: str | None) -> None:
    """Find out that two inputs would read the same stream.

    Raises:
        UsageError: More than one of the names is ``-``.
    """
    if names.count("-") > 1:
        raise click.UsageError("only one input can be standard input")


def size_of(*names: str) -> int | None:
    """Return the length of files in bytes, None if that of one cannot be known yet."""
    with suppress(OSError):
        if "-" not in names and all(Path(name).is_file() for name in names):
            return sum(Path(name).stat().st_size for name in names)
    return None


def lines_of(name: str) -> Iterator[bytes]:
    """Read every line of a JSON Lines file, without its end, in bounded memory.

    Raises:
        RefusedInputError: The file cannot be read, is of another form, or a line is too
            long.
    """
    with refusing(name), _opened(name) as file:
        for line in bounded_lines(file, LONGEST_LINE):
            yield line.removesuffix(b"\n")


def numbered_lines(name: str) -> Iterator[FileLine]:
    """Read the lines of a JSON Lines file one by one, empty ones left out.

    Raises:
        RefusedInputError: As ``lines_of``, or the file has no rows.
    """
    found = False
    for number, line in enumerate(lines_of(name), 1):
        if line.strip():
            found = True
            yield FileLine(number, line)
    if not found:
        raise RefusedInputError(f"{shown(name)}: the file has no rows")


def _opened(name: str) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb")


def read_rows(name: str, read: Callable[[bytes], T]) -> Iterator[T]:
    """Read a file of JSON Lines; what is wrong with a line is refused with its number.

    Raises:
        RefusedInputError: ``read`` refuses a line, or as ``numbered_lines``.
    """
    for number, line in numbered_lines(name):
        with refusing(f"{shown(name)}, line {number}"):
            row = read(line)
        yield row


def read_tasks(name: str) -> tuple[Task, ...]:
    """Read every row of a task file.

    Raises:
        RefusedInputError: A line is not a task row; the message names the line.
    """
    return tuple(read_rows(name, Task.from_json))


def tasks_hint(lacking: int, what: str, tasks: str | None) -> str | None:
    """Say what to do about rollouts that lack something; None if none does.

    Args:
        lacking: How many there are.
        what: What they lack.
        tasks: The file of ``--tasks``, if it was given.
    """
    if not lacking:
        return None
    found = f"{amount(lacking, 'rollout')} without {what}"
    if tasks is None:
        return f"{found}: name the file of the task rows with --tasks"
    return f"{found}: {shown(tasks)} has no row that is surely theirs"


def task_index(name: str | None) -> TaskIndex:
    """Read the task rows that ``--tasks`` names, if it does, to find those of rollouts.

    Raises:
        RefusedInputError: A line is not a task row; the message names the line.
    """
    tasks = () if name is None else read_tasks(name)
    return TaskIndex(tasks, without="no task rows were given (--tasks)")
