"""Reading what a verb is given: whole files, JSON Lines, task rows."""

from __future__ import annotations

import sys

from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeVar

import click

from ipistate.cli.exits import RefusedInputError, refusing, shown
from ipistate.cli.terminal import amount
from ipistate.scoring import Task, TaskIndex


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

T = TypeVar("T")


class FileLine(NamedTuple):
    """A line of a file that is not empty."""

    number: int
    text: bytes


def read_file(name: str) -> bytes:
    """Read a file, or standard input if its name is ``-``.

    Raises:
        RefusedInputError: It cannot be read.
    """
    with refusing(name):
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()


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


def numbered_lines(name: str, *, longest: int = -1) -> Iterator[FileLine]:
    """Read the lines of a JSON Lines file one by one, empty ones left out.

    Args:
        name: The file, or ``-``.
        longest: Bytes that a line may have; without it, any number.

    Raises:
        RefusedInputError: The file cannot be read, has no lines, or one is too long.
    """
    found = False
    with refusing(name), _opened(name) as file:
        for number, line in enumerate(iter(partial(file.readline, longest), b""), 1):
            if len(line) == longest and not line.endswith(b"\n"):
                message = f"longer than {longest} bytes: this is no JSON Lines file"
                raise RefusedInputError(f"{shown(name)}, line {number}: {message}")
            if line.strip():
                found = True
                yield FileLine(number, line.removesuffix(b"\n"))
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
