"""JSON Lines files that only grow: a line is there whole, or it is moved aside."""

from __future__ import annotations

import fcntl
import os

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from ipistate.errors import IpiStateError
from ipistate.kernel import json_line
from ipistate.storage import write_atomically


if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CHUNK: Final = 2**20


class RunFileError(IpiStateError):
    """A file of a run is not what it should be, or cannot be read or written.

    The message says what to do about it; nothing of the run has been lost.
    """


class NumberedLine(NamedTuple):
    """A line without its end, and its number from 1."""

    number: int
    text: bytes


def failed(path: Path, error: OSError, advice: str) -> RunFileError:
    """Say that the system does not let a file be used, and what to do."""
    told = error.strerror or str(error)
    return RunFileError("write_failed", f"{path}: {told}; {advice}")


class LineFile:
    """A file that lines are appended to, by one process at a time.

    Args:
        path: Made if it is not there.

    Raises:
        RunFileError: ``output_in_use``: another process writes to it. ``write_failed``:
            it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._file = os.open(path, flags, 0o666)
        except OSError as error:
            raise failed(path, error, "choose another output") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            message = f"{path}: another run is writing to this file; wait for its end"
            raise RunFileError("output_in_use", message) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def append(self, line: bytes) -> None:
        """Add a line of JSON, given without its end, whole or not at all.

        Raises:
            RunFileError: ``write_failed``: there is no room, for example. The file is
                what it was before.
        """
        size = os.fstat(self._file).st_size
        rest = memoryview(json_line(line) + b"\n")
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, size)
            advice = "make room, then go on with --resume"
            raise failed(self.path, error, advice) from error

    def sync(self) -> None:
        """Wait until everything that was added is on the disk.

        Raises:
            RunFileError: ``write_failed``: it cannot be brought there.
        """
        try:
            os.fsync(self._file)
        except OSError as error:
            raise failed(self.path, error, "then go on with --resume") from error

    def set_torn_aside(self) -> Path | None:
        """Move what stands behind the last line end into a file of its own.

        Returns:
            That file, ``<name>.torn-<position>``; None if every line has its end.

        Raises:
            RunFileError: ``write_failed``: the file cannot be written.
        """
        size = os.fstat(self._file).st_size
        end = self._end_of_lines(size)
        if end == size:
            return None
        aside = self.path.with_name(f"{self.path.name}.torn-{end}")
        try:
            with aside.open("ab") as file:
                file.write(os.pread(self._file, size - end, end))
                file.flush()
                os.fsync(file.fileno())
            os.ftruncate(self._file, end)
            os.fsync(self._file)
        except OSError as error:
            raise failed(aside, error, "make room, then try again") from error
        return aside

    def _end_of_lines(self, size: int) -> int:
        while size:
            start = max(0, size - _CHUNK)
            found = os.pread(self._file, size - start, start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            size = start
        return 0


def lines_of(path: Path) -> Iterator[NumberedLine]:
    """Read the lines of a file that have their end; a file that is not there has none.

    Raises:
        RunFileError: ``read_failed``: the system does not let it be read.
    """
    try:
        with path.open("rb") as file:
            for number, text in enumerate(file, 1):
                if text.endswith(b"\n"):
                    yield NumberedLine(number, text[:-1])
    except FileNotFoundError:
        return
    except OSError as error:
        message = f"{path}: {error.strerror or error}"
        raise RunFileError("read_failed", message) from error


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file by a complete new one, which is on the disk when this returns.

    Raises:
        RunFileError: ``write_failed``: it cannot be written; the old one is still there.
    """
    try:
        write_atomically(path, content)
    except OSError as error:
        raise failed(path, error, "make room, then try again") from error
