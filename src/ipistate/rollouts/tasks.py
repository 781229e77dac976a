"""A task file that is read row by row, however large it is."""

from __future__ import annotations

import os

from array import array
from hashlib import sha256
from typing import TYPE_CHECKING, cast

import attrs

from ipistate.errors import IpiStateError
from ipistate.kernel import decode
from ipistate.rollouts.lines import RunFileError
from ipistate.scoring import Task
from ipistate.storage import LineFormError, bounded_lines


if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ipistate.kernel import JsonObject


@attrs.frozen
class TaskFile:
    """Where the rows of a task file stand; the file stays open, so they stay the same."""

    path: Path
    sha256: str
    _file: int = attrs.field(repr=False)
    _starts: array[int] = attrs.field(repr=False)
    _sizes: array[int] = attrs.field(repr=False)

    def __len__(self) -> int:
        return len(self._starts)

    def line(self, row: int) -> bytes:
        """Return a row as it stands in the file, without the line's end."""
        return os.pread(self._file, self._sizes[row], self._starts[row])

    def document(self, row: int) -> JsonObject:
        """Return a row as a JSON object."""
        return cast("JsonObject", decode(self.line(row)))

    def tasks(self) -> Iterator[Task]:
        """Read every row, one after another."""
        return (Task.from_json(self.line(row)) for row in range(len(self)))

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


def open_tasks(path: Path) -> TaskFile:
    """Find and check the rows of a task file; empty lines are passed over.

    Raises:
        RunFileError: ``invalid_task``: a line is not a task row; ``no_rows``: there is
            none. ``read_failed``: the file cannot be read. ``not_json_lines``,
            ``line_too_long``: it is another kind of file.
    """
    digest, starts, sizes, start = sha256(), array("q"), array("q"), 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(bounded_lines(file), 1):
                digest.update(line)
                text = line.rstrip(b"\r\n")
                if text.strip():
                    _check(path, number, text)
                    starts.append(start)
                    sizes.append(len(text))
                start += len(line)
            if not starts:
                message = (
                    f"{path}: the file has no rows; make some: ipistate tasks generate"
                )
                raise RunFileError("no_rows", message)
            kept = os.dup(file.fileno())
    except LineFormError as error:
        raise RunFileError(error.code, f"{path}: {error.message}") from error
    except OSError as error:
        message = f"{path}: {error.strerror or error}"
        raise RunFileError("read_failed", message) from error
    return TaskFile(path, digest.hexdigest(), kept, starts, sizes)


def _check(path: Path, number: int, text: bytes) -> None:
    try:
        Task.from_json(text)
    except IpiStateError as error:
        message = (
            f"{path}, line {number}: {error}; ipistate tasks check lists everything"
        )
        raise RunFileError("invalid_task", message) from error
