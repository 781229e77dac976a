"""Files that a verb writes bit by bit: there when they are complete, or not at all."""

from __future__ import annotations

import os
import sys

from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ipistate.cli.exits import RefusedInputError, refusing
from ipistate.cli.files import check_writable


if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from contextlib import AbstractContextManager


def check_new(name: str, *, force: bool) -> None:
    """Find out before the work that a file must or can not be written.

    Raises:
        RefusedInputError: It exists and ``force`` is off, or no file can be there.
    """
    if name == "-":
        return
    check_writable(name)
    if not force and Path(name).exists():
        raise RefusedInputError(f"{name}: exists already; --force writes it anew")


class NewFile:
    """A file that is being written; each failure names it."""

    def __init__(self, name: str, file: BinaryIO) -> None:
        """Begin to write an open file."""
        self._name = name
        self._file = file

    def write(self, line: bytes) -> None:
        """Write a line, and its end.

        Raises:
            RefusedInputError: It cannot be written, for example as the disk is full.
        """
        with self._named():
            self._file.write(line + b"\n")

    def _named(self) -> AbstractContextManager[None]:
        # Standard output is watched over by whoever runs the command line.
        return nullcontext() if self._name == "-" else refusing(self._name)

    def close(self) -> None:
        """Write what is still in memory."""
        with self._named():
            self._file.close()


@contextmanager
def new_file(name: str) -> Generator[NewFile]:
    """Open a file whose content appears when all of it is written; ``-`` is a pipe.

    An older file of this name stays as it is until then, and for good if anything fails.

    Raises:
        RefusedInputError: It cannot be written.
    """
    path = Path(name)
    if name == "-":
        yield NewFile(name, sys.stdout.buffer)
    elif path.exists() and not path.is_file():
        # A device or a pipe is nobody's to replace.
        yield from _written(name, path)
    else:
        unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            yield from _written(name, unfinished)
            with refusing(name):
                unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


def _written(name: str, path: Path) -> Iterator[NewFile]:
    with refusing(name):
        opened = path.open("wb")
    file = NewFile(name, opened)
    try:
        yield file
    except BaseException:
        with suppress(OSError):
            opened.close()
        raise
    file.close()
