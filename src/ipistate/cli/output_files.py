"""Files that a verb writes: checks before the work, and writing."""

from __future__ import annotations

import os
import sys

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ipistate.cli.exits import RefusedInputError, refusing
from ipistate.cli.texts import shown
from ipistate.storage import AtomicFile


if TYPE_CHECKING:
    from collections.abc import Callable, Generator


def check_writable(name: str) -> None:
    """Find out before long work that its result cannot be written; changes nothing.

    Raises:
        RefusedInputError: No file of this name can be written.
    """
    file = Path(name)
    with refusing(name):
        exists = file.exists()
        usable = not file.is_dir() if exists else file.parent.is_dir()
    if not usable or not os.access(file if exists else file.parent, os.W_OK):
        raise RefusedInputError(f"{shown(name)}: no file can be written here")


def check_new(name: str) -> None:
    """Find out before the work that a file is there already; pipes may be.

    Raises:
        RefusedInputError: It exists.
    """
    if Path(name).is_file():
        raise RefusedInputError(
            f"{shown(name)}: exists already; --force writes it anew"
        )


@contextmanager
def output_file(name: str) -> Generator[Callable[[bytes], object]]:
    """Give a function that writes a file, which has its name only once it is whole.

    Raises:
        RefusedInputError: It cannot be written, for example as the disk is full.
    """
    with refusing(name):
        file = AtomicFile(Path(name))

    def put(data: bytes) -> None:
        with refusing(name):
            file.write(data)

    try:
        yield put
        with refusing(name):
            file.publish()
    finally:
        file.discard()


@contextmanager
def output_file_or_pipe(name: str) -> Generator[Callable[[bytes], object]]:
    """Give a function that writes a file, or standard output for ``-``."""
    if name == "-":
        yield sys.stdout.buffer.write  # ``app.run`` reports what fails there
        return
    with output_file(name) as put:
        yield put
