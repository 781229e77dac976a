"""An in-memory checkpoint directory, written in named steps as the real one is.

A write can fail at each step, and be cut off before each step by a crash. What was not
synced may be gone after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from session_records import sessions_of

from ipistate.errors import CheckpointError
from ipistate.protocol.records import Manifest, Restorable, SessionRecord


if TYPE_CHECKING:
    from ipistate.protocol.actions import Write
    from ipistate.protocol.episode import EpisodeId


STEPS = ("temporary", "lines", "records", "synced", "manifest", "durable")


def refused(message: str) -> CheckpointError:
    """Make the error of a directory that cannot be written or read."""
    return CheckpointError("invalid_checkpoint_state", message)


def manifest_of(action: Write) -> Manifest:
    """Make the manifest that a write publishes."""
    text = repr(
        [(r.session_id, r.episode_id, r.state) for r in sessions_of(action.records)]
    )
    digest = sha256(text.encode()).hexdigest()
    return Manifest(
        kind="resources",
        instance="ipi",
        checkpoint_id=action.checkpoint_id,
        records_file=f"records-{digest}.jsonl",
        records_sha256=digest,
        record_count=len(action.records),
    )


class Directory:
    """What one checkpoint directory holds."""

    def __init__(self) -> None:
        """Start empty."""
        self.temporary: set[int] = set()
        self.files: dict[str, tuple[SessionRecord, ...]] = {}
        self.manifest: Manifest | None = None
        self.unsynced: set[str] = set()

    def lose_power(self, is_lost: Callable[..., bool]) -> None:
        """Forget some of what was not synced; temporary files stay behind."""
        for name in sorted(self.unsynced):
            if is_lost() and name == "manifest":
                self.manifest = None
            elif name != "manifest" and name not in self._needed() and is_lost():
                del self.files[name]
        self.unsynced = set()

    def _needed(self) -> set[str]:
        return set() if self.manifest is None else {self.manifest.records_file}

    def read(self, scope: tuple[EpisodeId, ...]) -> Restorable[SessionRecord]:
        """Return the records of a scope, as a reader finds them."""
        if self.manifest is None:
            raise refused("no checkpoint here")
        records = self.files[self.manifest.records_file]
        kept = tuple(record for record in records if record.episode_id in scope)
        return Restorable(self.manifest, kept)


class StopFlag:
    """Ends a write; whoever sets it waits only for a publication that runs."""

    def __init__(self) -> None:
        """Start with a write that may go on."""
        self.is_set = self.is_locked = False
        self._waiting: list[Callable[..., None]] = []

    def set(self, done: Callable[..., None]) -> None:
        """Set the flag as soon as nothing is being published, then call ``done``."""
        if self.is_locked:
            self._waiting.append(done)
        else:
            self.is_set = True
            done()

    def check(self) -> None:
        """Refuse to go on once the flag is set."""
        if self.is_set:
            raise refused("stopped")

    @contextmanager
    def publishing(self) -> Generator[None]:
        """Hold off those who want to set the flag; a crash releases nobody."""
        self.check()
        self.is_locked = True
        try:
            yield
        except CheckpointError:
            self._release()
            raise
        self._release()

    def _release(self) -> None:
        self.is_locked, waiting, self._waiting = False, self._waiting, []
        for done in waiting:
            self.set(done)


class Disk:
    """Directories by name; it outlives the processes."""

    def __init__(self) -> None:
        """Start empty."""
        self.directories: dict[str, Directory] = {}

    def at(self, name: str) -> Directory:
        """Return a directory, made if it is missing."""
        return self.directories.setdefault(name, Directory())

    def lose_power(self, is_lost: Callable[..., bool]) -> None:
        """Forget some of what was not synced."""
        for directory in self.directories.values():
            directory.lose_power(is_lost)

    def read(
        self, name: str, scope: tuple[EpisodeId, ...]
    ) -> Restorable[SessionRecord]:
        """Return the records of a scope."""
        if name not in self.directories:
            raise refused("no such directory")
        return self.directories[name].read(scope)

    def write(
        self, action: Write, flag: StopFlag, published: Callable[..., None]
    ) -> Generator[str, Any, CheckpointError | Manifest]:
        """Publish a checkpoint in steps; yields the name of each step before it is done.

        A true value sent in makes the step fail. ``published`` is called when the
        manifest appears.
        """
        directory, manifest = self.at(action.directory), manifest_of(action)
        try:
            _fail_if((yield "temporary"))
            flag.check()
            directory.temporary.add(action.write)
            _fail_if((yield "lines"))
            failing = yield "records"
            with flag.publishing():
                _fail_if(failing)
                directory.files[manifest.records_file] = sessions_of(action.records)
                directory.unsynced.add(manifest.records_file)
                directory.temporary.discard(action.write)
                _fail_if((yield "synced"))
                directory.unsynced.discard(manifest.records_file)
                _fail_if((yield "manifest"))
                _link(directory, manifest, lambda: published(action))
                _fail_if((yield "durable"))
                directory.unsynced.discard("manifest")
        except CheckpointError as error:
            directory.temporary.discard(action.write)
            return error
        return manifest


def _fail_if(failing: bool) -> None:
    if failing:
        raise refused("input/output error")


def _link(
    directory: Directory, manifest: Manifest, published: Callable[..., None]
) -> None:
    if directory.manifest is None:
        directory.manifest = manifest
        directory.unsynced.add("manifest")
        published()
    elif directory.manifest != manifest:
        if directory.manifest.records_file != manifest.records_file:
            directory.files.pop(manifest.records_file, None)
        raise refused("another checkpoint is here")
