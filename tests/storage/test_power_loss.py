"""What a disk may hold after a power cut: everything synced, and any part of the rest.

A cut leaves the contents and the names that were synced; of the names that were not, any
selection, and of contents that were not, nothing or all.
"""

from __future__ import annotations

import os

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import durability
import pytest

from ipistate.storage.checkpoint_directory import CheckpointDirectory


directory_at, found, write = durability.directory_at, durability.found, durability.write


class Disk:
    """The files below a directory, as far as a power cut leaves them."""

    def __init__(self, root: Path) -> None:
        """Start with an empty directory."""
        self.root = root
        self.contents: dict[object, bytes] = {}
        self.synced: dict[object, bool] = {}
        self.names: defaultdict[Path, dict[str, Any]] = defaultdict(dict)
        self.pending: defaultdict[Path, list[tuple[str, Any]]] = defaultdict(list)

    def perform(self, step: durability.Step) -> None:
        """Take over one successful step."""
        done = {
            "mkdir": self._mkdir,
            "create": self._create,
            "write": self._write,
            "fsync": self._fsync,
            "rename to": self._rename,
            "link": self._link,
            "unlink": self._unlink,
        }
        done.get(step.operation, lambda _: None)(step)

    def _now(self, path: Path) -> Any:
        names = dict(self.names[path.parent])
        for change in self.pending[path.parent]:
            _apply(names, change)
        return names.get(path.name)

    def _change(self, path: Path, node: object) -> None:
        self.pending[path.parent].append((path.name, node))

    def _mkdir(self, step: durability.Step) -> None:
        self._change(step.path, step.path)

    def _create(self, step: durability.Step) -> None:
        node = object()
        self.contents[node], self.synced[node] = b"", False
        self._change(step.path, node)

    def _write(self, step: durability.Step) -> None:
        node = self._now(step.path)
        self.contents[node] += step.data
        self.synced[node] = False

    def _fsync(self, step: durability.Step) -> None:
        node = self._now(step.path)
        if node in self.contents:
            self.synced[node] = True
        for change in self.pending.pop(step.path, ()):
            _apply(self.names[step.path], change)

    def _rename(self, step: durability.Step) -> None:
        assert step.other is not None
        self._change(step.path, self._now(step.other))
        self._change(step.other, None)

    def _link(self, step: durability.Step) -> None:
        assert step.other is not None
        self._change(step.path, self._now(step.other))

    def _unlink(self, step: durability.Step) -> None:
        if self._now(step.path) is not None:
            self._change(step.path, None)

    def after_a_cut(self) -> Iterator[dict[Path, bytes]]:
        """Give every state that may be found: pairs of path and content."""
        changes = [(d, change) for d, some in self.pending.items() for change in some]
        for kept in chain.from_iterable(
            combinations(changes, count) for count in range(len(changes) + 1)
        ):
            names = {directory: dict(known) for directory, known in self.names.items()}
            for directory, change in kept:
                _apply(names.setdefault(directory, {}), change)
            for lost in (False, True):
                yield dict(self._files(self.root, names, lost=lost))

    def _files(
        self, directory: Path, names: dict[Path, Any], *, lost: bool
    ) -> Iterator[tuple[Path, bytes]]:
        for name, node in names.get(directory, {}).items():
            if isinstance(node, Path):
                yield from self._files(node, names, lost=lost)
            else:
                whole = self.synced[node] or not lost
                yield directory / name, self.contents[node] if whole else b""


def _apply(names: dict[str, Any], change: tuple[str, object]) -> None:
    name, node = change
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def place(files: dict[Path, bytes], old: Path, new: Path) -> CheckpointDirectory:
    """Write files as they were found, at another place."""
    for path, content in files.items():
        copy = new / path.relative_to(old)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content)
    return directory_at(new)


@pytest.fixture
def cut(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., set[str]]:
    """Return a function that names what readers may find after a power cut."""

    def outcomes(disk: Disk) -> set[str]:
        return {
            found(place(files, disk.root, tmp_path_factory.mktemp("cut")))
            for files in disk.after_a_cut()
        }

    return outcomes


def steps_of_a_write(base: Path) -> list[durability.Step]:
    """Write, and return the steps."""
    with durability.Watch(base).watching() as watch:
        write(directory_at(base))
    return watch.steps


def test_b41_a_power_cut_at_any_step_leaves_nothing_or_everything(
    tmp_path: Path, cut: Callable[..., set[str]]
) -> None:
    """Records, sync, name, sync, manifest, sync, name, sync: no cut finds a half."""
    disk = Disk(tmp_path)
    for step in steps_of_a_write(tmp_path):
        disk.perform(step)

        assert cut(disk) <= {"nothing", "ours"}, step.name


def test_what_was_answered_survives_every_power_cut(
    tmp_path: Path, cut: Callable[..., set[str]]
) -> None:
    """Once the write has returned, the checkpoint cannot be lost."""
    disk = Disk(tmp_path)
    for step in steps_of_a_write(tmp_path):
        disk.perform(step)

    assert {"ours"} == cut(disk)


DIRECTORIES = ("checkpoint/", "gym/", "resources/", "ipi/")


@pytest.mark.parametrize("made", DIRECTORIES)
def test_directories_of_a_writer_that_died_are_synced_by_the_next(
    tmp_path: Path, cut: Callable[..., set[str]], made: str
) -> None:
    """A writer that died between making a directory and syncing its parent."""
    disk = Disk(tmp_path)

    class DiedError(BaseException):
        pass

    def notice(moment: str, step: durability.Step) -> None:
        if (moment, step.name) == ("after", f"mkdir {made}"):
            raise DiedError

    with (
        pytest.raises(DiedError),
        durability.Watch(tmp_path, notice).watching() as first,
    ):
        write(directory_at(tmp_path))
    for step in (*first.steps, *steps_of_a_write(tmp_path)):
        disk.perform(step)

    assert {"ours"} == cut(disk)


def test_a_missing_sync_would_be_found(
    tmp_path: Path, cut: Callable[..., set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk of these tests loses what is not synced: without syncs it shows."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    disk = Disk(tmp_path)
    for step in steps_of_a_write(tmp_path):
        if step.operation != "fsync":
            disk.perform(step)

    assert cut(disk) - {"nothing", "ours"}
    assert "nothing" in cut(disk)
