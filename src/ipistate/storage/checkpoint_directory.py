"""Checkpoint directories: how a participant's part is written, published and read.

A directory either has a manifest and then a complete, synced records file beside it that
never changes, or it has no manifest and is no checkpoint (docs/reference/control-plane.md, section 4).
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile

from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, Final, Generic, TypeVar

import attrs

from ipistate.errors import CheckpointError, DecodeError, IpiStateError, preview
from ipistate.kernel import decode
from ipistate.protocol import (
    KIND,
    SAFE_NAME,
    CheckpointRecord,
    EpisodeId,
    Manifest,
    RecordCodec,
    Restorable,
    SessionRecord,
    SessionRecords,
    read_manifest,
)
from ipistate.storage.atomic_file import sync_and_close, sync_directory


if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Iterator

    from ipistate.sessions import StateCodec

R = TypeVar("R", bound=CheckpointRecord)

GYM: Final = "gym"
"""The directory below which every participant has its own, by kind and name."""
MANIFEST: Final = "manifest.json"
MAX_MANIFEST_BYTES: Final = 2**20
"""A manifest is far smaller; a larger file is none, and reading it would take memory."""


def _invalid(message: str) -> CheckpointError:
    return CheckpointError("invalid_checkpoint_state", message)


class StopFlag:
    """Lets ``resume`` end a write that is no longer wanted.

    See docs/reference/control-plane.md, section 4.5.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._stopped = False

    def stop(self) -> None:
        """Stop the write; waits only for a publication that is already running.

        After this returns no manifest of the write can appear.
        """
        with self._lock:
            self._stopped = True

    def check(self) -> None:
        """Refuse to go on once stopped.

        Raises:
            CheckpointError: The write has been stopped.
        """
        if self._stopped:
            raise _invalid("the write was stopped before it was published")

    @contextmanager
    def publishing(self) -> Generator[None]:
        """Hold off ``stop`` while something is published."""
        with self._lock:
            self.check()
            yield


@attrs.frozen
class CheckpointDirectory:
    """The files of one participant below a checkpoint directory."""

    root: Path
    instance: str
    kind: str = KIND
    within: Path | None = attrs.field(default=None, kw_only=True)
    """Where no symbolic link may lead out of; None follows them anywhere."""
    follow_links: bool = attrs.field(default=True, kw_only=True)
    """Whether there may be symbolic links below ``root`` at all."""

    def _path(self) -> Path:
        for name in (self.kind, self.instance):
            if SAFE_NAME.fullmatch(name) is None:
                raise _invalid(f"{preview(name)} cannot name a participant")
        path = self.root / GYM / self.kind / self.instance
        self._check_within(path)
        return path

    def _file(self, name: str) -> Path:
        path = self._path() / name
        self._check_within(path)
        return path

    def _check_within(self, path: Path) -> None:
        if self.within is None and self.follow_links:
            return
        with _as_refusal():
            real, root = path.resolve(), self.root.resolve()
            if self.within and not real.is_relative_to(self.within.resolve()):
                raise _invalid(f"{path} leads out of the checkpoint root")
            if not self.follow_links and real != root / path.relative_to(self.root):
                raise _invalid(f"{path} is reached by a symbolic link")

    def write(
        self, checkpoint_id: str, lines: Iterable[bytes], stop: StopFlag
    ) -> Manifest:
        """Write and publish a checkpoint; writing the same again changes nothing.

        ``lines`` are taken one by one, so that they need not exist all at once.

        Raises:
            CheckpointError: ``invalid_checkpoint_state``: a file operation failed, a
                record cannot be written, the write was stopped, or the directory holds
                another checkpoint. Nothing is published then.
        """
        path = self._path()
        with _as_refusal():
            _make_directories(path)
            with _temporary(path, ".records.jsonl.") as temporary:
                digest, count = _write_lines(temporary[1], lines, stop)
                manifest = Manifest(
                    kind=self.kind,
                    instance=self.instance,
                    checkpoint_id=checkpoint_id,
                    records_file=f"records-{digest}.jsonl",
                    records_sha256=digest,
                    record_count=count,
                )
                with stop.publishing():
                    _publish(path, temporary[0], manifest)
        return manifest

    def read_manifest(self) -> Manifest:
        """Read the manifest alone, with the checks 1 to 7.

        See docs/reference/control-plane.md, section 4.6.

        Raises:
            CheckpointError: ``invalid_checkpoint_state``, naming file and check.
        """
        path = self._file(MANIFEST)
        with _as_refusal(MANIFEST):
            try:
                data = _read_bytes(path)
            except (FileNotFoundError, NotADirectoryError):
                raise _invalid(f"{path} does not exist: no checkpoint here") from None
            return read_manifest(data, self.kind, self.instance)

    def records_size(self, manifest: Manifest) -> int:
        """Return the size in bytes of a published checkpoint's records file.

        Raises:
            CheckpointError: ``invalid_checkpoint_state``: the file is not there.
        """
        with _as_refusal(manifest.records_file):
            return self._file(manifest.records_file).stat().st_size

    def read(
        self, codec: StateCodec[Any], scope: Collection[EpisodeId] | None = None
    ) -> Restorable[SessionRecord]:
        """Read a resources server's checkpoint, as ``read_records`` does."""
        return self.read_records(SessionRecords(codec), scope)

    def read_records(
        self, codec: RecordCodec[R], scope: Collection[EpisodeId] | None = None
    ) -> Restorable[R]:
        """Read a checkpoint, keeping the records of the scope (None keeps all).

        Every check of docs/reference/control-plane.md, section 4.6, is made on the
        whole file; memory is needed for the longest line and for what is kept.

        Raises:
            CheckpointError: ``invalid_checkpoint_state``, naming file, line and check.
        """
        manifest = self.read_manifest()
        reading = _Reading(manifest, codec, scope)
        with _as_refusal(manifest.records_file):
            with _opened(self._file(manifest.records_file)) as file:
                for line in _lines(file):
                    reading.take(line)
            return Restorable(manifest, reading.finish())


class _Reading(Generic[R]):
    """The records of a file while it streams by."""

    def __init__(
        self,
        manifest: Manifest,
        codec: RecordCodec[R],
        scope: Collection[EpisodeId] | None,
    ) -> None:
        self._manifest = manifest
        self._codec = codec
        self._read = codec.reader(None if scope is None else frozenset(scope))
        self._digest = hashlib.sha256()
        self._count = 0
        self._kept: dict[str, R] = {}
        self._fault: str | None = None

    def take(self, line: bytes) -> None:
        self._digest.update(line)
        self._count += 1
        if self._fault is None:
            # A fault in one line may be damage; only the digest of all can tell.
            try:
                self._keep(self._read(line))
            except IpiStateError as error:
                self._fault = f"line {self._count}: {error}"

    def _keep(self, record: R | None) -> None:
        if record is None:
            return
        key = self._codec.key(record)
        if key in self._kept:
            raise _invalid(f"session {preview(key)} stands there more than once")
        self._kept[key] = record

    def finish(self) -> tuple[R, ...]:
        name, manifest = self._manifest.records_file, self._manifest
        faults = [] if self._fault is None else [self._fault]
        if self._digest.hexdigest() != manifest.records_sha256:
            faults.append("its SHA-256 is not the manifest's: the file was changed")
        if self._count != manifest.record_count:
            counted = f"it has {self._count} lines, not {manifest.record_count}"
            faults.append(counted)
        if faults:
            raise _invalid(f"{name}: {'; '.join(faults)}")
        return tuple(self._kept.values())


@contextmanager
def _as_refusal(name: str | None = None) -> Generator[None]:
    prefix = "" if name is None else f"{name}: "
    try:
        yield
    except OSError as error:
        where = "" if error.filename is None else f" ({error.filename})"
        raise _invalid(f"{prefix}{error.strerror or error}{where}") from error
    except ValueError as error:
        # Not JSON, not a record, or a path that the system cannot even be asked for.
        raise _invalid(f"{prefix}{error}") from error


@contextmanager
def _opened(path: Path) -> Generator[IO[bytes]]:
    # A directory may come from an attacker: opening a fifo would wait for its writer,
    # and a device has no end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        _check_regular(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    with os.fdopen(descriptor, "rb") as file:
        yield file


def _check_regular(descriptor: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise _invalid(f"{path} is not a regular file")


def _read_bytes(path: Path) -> bytes:
    with _opened(path) as file:
        data = file.read(MAX_MANIFEST_BYTES + 1)
    if len(data) > MAX_MANIFEST_BYTES:
        raise _invalid(f"{path} is longer than {MAX_MANIFEST_BYTES:,} bytes")
    return data


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    # Of a file that grows meanwhile one byte too many is read, and its digest is wrong.
    rest = os.fstat(file.fileno()).st_size + 1
    while line := file.readline(rest):
        rest -= len(line)
        yield line


def _make_directories(path: Path) -> None:
    # A new directory survives a crash only if its parent is synced as well.
    missing = [path]
    while not missing[-1].exists():
        missing.append(missing[-1].parent)
    # A writer that failed or died may have made the last one and not synced its parent.
    # Where others own the parent, it may be closed to us.
    with suppress(PermissionError):
        sync_directory(missing.pop().parent)
    for new in reversed(missing):
        new.mkdir(exist_ok=True)
        sync_directory(new.parent)
    if not path.is_dir():
        raise NotADirectoryError(None, "not a directory", str(path))


@contextmanager
def _temporary(path: Path, prefix: str) -> Generator[tuple[Path, IO[bytes]]]:
    descriptor, name = tempfile.mkstemp(prefix=prefix, dir=path)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield Path(name), file
    finally:
        with suppress(OSError):
            Path(name).unlink(missing_ok=True)


def _write_lines(
    file: IO[bytes], lines: Iterable[bytes], stop: StopFlag
) -> tuple[str, int]:
    digest, count = hashlib.sha256(), 0
    for line in lines:
        stop.check()
        file.write(line)
        digest.update(line)
        count += 1
    sync_and_close(file)
    return digest.hexdigest(), count


def _publish(path: Path, temporary: Path, manifest: Manifest) -> None:
    # The records file may stay behind if a later step fails. It is whole, and another
    # writer of the same records may be about to publish it, so it is not removed.
    temporary.replace(path / manifest.records_file)
    # The manifest must not outlive a crash that the records' new name does not.
    sync_directory(path)
    with _temporary(path, ".manifest.json.") as (name, file):
        file.write(manifest.to_json())
        sync_and_close(file)
        try:
            os.link(name, path / MANIFEST)
        except FileExistsError:
            _compare_with_published(path, manifest)
    sync_directory(path)


def _compare_with_published(path: Path, manifest: Manifest) -> None:
    try:
        published = decode(_read_bytes(path / MANIFEST))
    except DecodeError:
        published = None
    if published == manifest.to_document():
        return
    named = published.get("records_file") if isinstance(published, dict) else None
    if named != manifest.records_file:
        (path / manifest.records_file).unlink(missing_ok=True)
    raise _invalid(f"{path / MANIFEST} belongs to another checkpoint")
