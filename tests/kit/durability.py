"""A checkpoint, and each system call of its writer and reader as a named step.

Tests make a step fail, or kill the process there. Loaded by file name, also by the
process that is killed, so nothing here needs pytest.
"""

from __future__ import annotations

import io
import os
import re
import tempfile

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from ipistate.errors import CheckpointError
from ipistate.kernel.environment import Environment
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.records import (
    EncodedStates,
    Manifest,
    SessionRecord,
    record_line,
)
from ipistate.sessions.state import EnvironmentCodec
from ipistate.storage.checkpoint_directory import CheckpointDirectory, StopFlag


NAMES = (
    (re.compile(r"\.records\.jsonl\..*"), "temporary records"),
    (re.compile(r"\.manifest\.json\..*"), "temporary manifest"),
    (re.compile(r"records-[0-9a-f]{64}\.jsonl"), "records"),
    (re.compile(r"manifest\.json"), "manifest"),
)


T = TypeVar("T")


@dataclass(frozen=True)
class Step:
    """One system call on something below the watched directory."""

    operation: str
    target: str
    occurrence: int
    path: Path = field(compare=False)
    other: Path | None = field(compare=False, default=None)
    data: bytes = field(compare=False, default=b"", repr=False)

    @property
    def name(self) -> str:
        """Name the step; a number tells repetitions apart."""
        repeated = f" {self.occurrence}" if self.occurrence > 1 else ""
        return f"{self.operation} {self.target}{repeated}"


def nothing(moment: str, step: Step) -> None:
    """Let every step go by."""


class Watch:
    """Tells of each system call below a directory, by name.

    ``notice(moment, step)`` is called with "before" and "after", for writes also with
    "halfway". What it does itself is not watched, and what it raises is what the call
    raises.
    """

    def __init__(self, root: str | Path, notice: Callable[..., None] = nothing) -> None:
        """Watch what happens below ``root``."""
        self.root = Path(root)
        self.steps: list[Step] = []
        self._notice = notice
        self._busy = False
        self._count: Counter[tuple[str, str]] = Counter()
        self._opened: dict[int, str | Path] = {}

    def name(self, path: Path) -> str:
        """Name a file or directory by its role."""
        name = "parent" if path == self.root else path.name
        known = (role for pattern, role in NAMES if pattern.fullmatch(name))
        return next(known, f"{name}/")

    def perform(
        self, operation: str, path: object, call: Callable[[], T], **more: Any
    ) -> T:
        """Make a call as a step, if it is on something watched."""
        place = Path(os.path.abspath(path)) if isinstance(path, str | Path) else None  # noqa: PTH100
        if self._busy or place is None or not place.is_relative_to(self.root):
            return call()
        key = operation, self.name(place)
        self._count[key] += 1
        step = Step(*key, self._count[key], place, **more)
        self.steps.append(step)
        try:
            self.tell("before", step)
        except OSError:
            if operation == "close":
                call()  # a close that fails closes nevertheless
            raise
        try:
            return call()
        finally:
            self.tell("after", step)

    def tell(self, moment: str, step: Step) -> None:
        """Call ``notice``, blind to what it does."""
        self._busy = True
        try:
            self._notice(moment, step)
        finally:
            self._busy = False

    @contextmanager
    def watching(self) -> Generator[Watch]:
        """Watch until the context ends."""
        with (
            patch.multiple(os, **self._functions()),
            patch.object(io, "open", self._io),
        ):
            yield self

    def _functions(self) -> dict[str, Any]:
        real = {
            name: getattr(os, name)
            for name in ("stat", "mkdir", "fsync", "close", "unlink")
        }
        self._open, self._io_open = os.open, io.open

        def watched(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
            def function(target: int | Path, *arguments: Any, **options: Any) -> Any:
                path = self._opened.get(target) if isinstance(target, int) else target
                if name == "close" and isinstance(target, int):
                    self._opened.pop(target, None)
                return self.perform(
                    name, path, lambda: call(target, *arguments, **options)
                )

            return function

        def moved(operation: str, call: Callable[..., Any]) -> Callable[..., None]:
            def function(source: Path, target: Path) -> None:
                self.perform(
                    operation, target, lambda: call(source, target), other=Path(source)
                )

            return function

        return {
            **{name: watched(name, call) for name, call in real.items()},
            "replace": moved("rename to", os.replace),
            "link": moved("link", os.link),
            "open": self._os_open,
        }

    def _os_open(
        self, path: str | Path, flags: int, *arguments: Any, **options: Any
    ) -> int:
        operation = "create" if flags & os.O_CREAT else "open"
        descriptor = self.perform(
            operation, path, lambda: self._open(path, flags, *arguments, **options)
        )
        if not self._busy:
            self._opened[descriptor] = path
        return descriptor

    def _io(
        self,
        file: int | str | Path,
        mode: str = "r",
        buffering: int = -1,
        *arguments: Any,
        **options: Any,
    ) -> Any:
        path = self._opened.get(file) if isinstance(file, int) else file
        if self._busy or path is None or "b" not in mode:
            return self._io_open(file, mode, buffering, *arguments, **options)
        if isinstance(file, int):
            raw = WatchedFile(file, mode.replace("b", ""))
        else:
            raw = self.perform("open", path, lambda: WatchedFile(file, "r"))
        raw.watch, raw.path = self, path
        self._opened[raw.fileno()] = path
        if not buffering:
            return raw
        return io.BufferedWriter(raw) if "w" in mode else io.BufferedReader(raw)


class WatchedFile(io.FileIO):
    """A file whose reads and writes are steps."""

    watch: Watch | None = None
    path: str | Path | None = None

    def write(self, data: Any) -> int:
        """Write in two halves, with a moment between them."""
        whole = bytes(data)
        half = len(whole) // 2

        def call() -> int:
            done = io.FileIO.write(self, whole[:half])
            if self.watch is not None:
                self.watch.tell("halfway", self.watch.steps[-1])
            return done + io.FileIO.write(self, whole[half:])

        return self._step("write", call, data=whole)

    def readall(self) -> bytes:
        """Read to the end."""
        return self._step("read", lambda: io.FileIO.readall(self))

    def readinto(self, buffer: Any) -> int:
        """Read a part."""
        return self._step("read", lambda: io.FileIO.readinto(self, buffer))

    def close(self) -> None:
        """Close."""
        if self.closed or self.watch is None:
            io.FileIO.close(self)
            return
        self.watch._opened.pop(self.fileno(), None)
        self._step("close", lambda: io.FileIO.close(self))

    def _step(self, operation: str, call: Callable[[], T], **more: Any) -> T:
        if self.watch is None:
            return call()
        return self.watch.perform(operation, self.path, call, **more)


CODEC = EnvironmentCodec()


def records_of(text: str) -> list[SessionRecord]:
    """Make three records, each long enough to be written on its own."""
    return [
        SessionRecord(
            EpisodeId(f"r{number}"),
            f"s{number}",
            Environment.of({"note": text * 10_000, "number": number}),
        )
        for number in range(3)
    ]


OURS, THEIRS = records_of("a"), records_of("b")


def directory_at(base: Path) -> CheckpointDirectory:
    """Return a participant's directory below one that does not exist yet."""
    return CheckpointDirectory(base / "checkpoint", "ipi")


def write(
    directory: CheckpointDirectory,
    records: list[SessionRecord] = OURS,
    checkpoint_id: str = "c1",
    stop: StopFlag | None = None,
) -> Manifest:
    """Write a checkpoint."""
    lines = EncodedStates(CODEC).lines(records)
    return directory.write(checkpoint_id, lines, stop or StopFlag())


def world_of(record: SessionRecord) -> Environment:
    """Return the state of a record, which is a world here."""
    assert isinstance(record.state, Environment)
    return record.state


def lines_of(
    records: Iterable[SessionRecord],
) -> list[bytes]:
    """Write records as lines."""
    return [record_line(one, CODEC.encode(world_of(one))) for one in records]


def found(directory: CheckpointDirectory) -> str:
    """Name what a reader finds: nothing, or one of the two whole checkpoints."""
    try:
        restorable = directory.read(CODEC)
    except CheckpointError as error:
        return "nothing" if "no checkpoint here" in error.message else error.message
    lines = lines_of(restorable.records)
    known = {("c1", "ours"): OURS, ("c2", "the rival's"): THEIRS}
    return next(
        told
        for (checkpoint_id, told), records in known.items()
        if checkpoint_id == restorable.manifest.checkpoint_id
        and lines == lines_of(records)
    )


def temporary_files(base: Path) -> list[str]:
    """List what stands below a directory under a temporary name."""
    return [path.name for path in base.rglob(".*")]


def names_of_steps(records: list[SessionRecord] = OURS) -> list[list[str]]:
    """Watch a write and a read, and list their steps in order."""
    with tempfile.TemporaryDirectory() as base:
        directory = directory_at(Path(base))
        with Watch(base).watching() as writing:
            write(directory, records)
        with Watch(base).watching() as reading:
            directory.read(CODEC)
    return [
        [step.name for step in watch.steps if step.operation != "stat"]
        for watch in (writing, reading)
    ]
