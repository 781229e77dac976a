"""Files that appear when they are complete and on the disk, or not at all."""

from __future__ import annotations

import os

from contextlib import suppress
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO


class AtomicFile:
    """A file that is written beside its name and takes the name when it is published.

    An older file of this name stays as it is until then, and for good if anything
    fails. Symbolic links are followed.

    Args:
        path: The name to take.

    Raises:
        OSError: There can be no file beside it.
    """

    def __init__(self, path: Path) -> None:
        # A device or a pipe is written to, and never replaced by a file. It is asked by
        # the name that was given: a pipe's name below /dev/fd resolves to nothing.
        self._is_direct = path.exists() and not path.is_file()
        self._whole = path if self._is_direct else path.resolve()
        self._partial = self._whole
        if not self._is_direct:
            name = f".{self._whole.name}.{os.getpid()}.part"
            self._partial = self._whole.with_name(name)
        self._file = self._partial.open("wb")

    def write(self, data: bytes) -> None:
        """Add to the content.

        Raises:
            OSError: It cannot be written, for example because the disk is full.
        """
        self._file.write(data)

    def publish(self) -> None:
        """Bring the content to the disk, and give it its name.

        Raises:
            OSError: It cannot be brought there; the older file is still in its place.
        """
        if self._is_direct:
            self._file.close()
            return
        sync_and_close(self._file)
        self._partial.replace(self._whole)
        # Where others own the directory it may be closed to us. The file has its name
        # all the same, and only a crash of the whole machine could lose that.
        with suppress(PermissionError):
            sync_directory(self._whole.parent)

    def discard(self) -> None:
        """Leave nothing behind; after ``publish`` this changes nothing."""
        with suppress(OSError):
            self._file.close()
        if not self._is_direct:
            self._partial.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file by a complete new one.

    Raises:
        OSError: It cannot be written; the older file is still in its place.
    """
    file = AtomicFile(path)
    try:
        file.write(content)
        file.publish()
    finally:
        file.discard()


def sync_and_close(file: IO[bytes]) -> None:
    """Wait until the content of a file is on the disk.

    Raises:
        OSError: It cannot be brought there.
    """
    file.flush()
    os.fsync(file.fileno())
    file.close()  # some file systems report only now that a write was lost


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are on the disk.

    Raises:
        OSError: The system cannot do that.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
