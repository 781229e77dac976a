"""The capture ledger's files: a row for each call, one file for each capture key.

A row that was appended survives a crash. A key that was retired has a fence, an empty
file, and nothing of it is read or kept any more. See docs/reference/control-plane.md,
section 6.
"""

from __future__ import annotations

import logging
import os

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import Final, TypeAlias, cast

import attrs

from ipistate.capture import (
    CommittedRow,
    LedgerRow,
    capture_manifest,
    read_row,
    row_line,
)
from ipistate.errors import DataError, IpiStateError, SchemaError, json_path, preview
from ipistate.kernel import JsonObject
from ipistate.protocol import EpisodeId
from ipistate.storage.atomic_file import sync_directory, write_atomically


MAX_BATCH: Final = 4096
"""Capture keys that one retire or delete may name."""

MAX_KEY: Final = 200
"""Characters of a capture key that a file can be named by."""

REMEMBERED: Final = 4096
"""Ledgers whose lines are known without being read again."""

_LEDGER: Final = ".lineage.jsonl"
_FENCE: Final = ".lineage.retired"
_TOKENS: Final = ".tokens.jsonl"
_INCOMPLETE: Final = ".tokens.incomplete"
_SUFFIXES: Final = (_LEDGER, _FENCE, _TOKENS, _INCOMPLETE)

Remove: TypeAlias = Callable[[str], bool]

_log: Final = logging.getLogger("ipistate.storage.ledger")


class LedgerError(DataError):
    """A ledger that cannot be read or added to.

    ``is_retired``: its attempt was retired. ``row_conflict``: the call has another row.
    ``ledger_damaged``: a line is not a row.
    """


@attrs.frozen
class LedgerRemoval:
    """What a retire or a delete has done, in the order in which it was asked."""

    removed: tuple[str, ...]
    """Keys that had a ledger."""
    absent: tuple[str, ...]
    """Keys that had none."""


def checked_keys(keys: object) -> tuple[str, ...]:
    """Check the capture keys of a batch, and leave out repetitions.

    Raises:
        SchemaError: ``wrong_type``, ``missing_ids``, ``too_many_ids`` or
            ``invalid_rollout_id``, with the place; one bad key refuses all.
    """
    if isinstance(keys, str) or not isinstance(keys, Iterable):
        message = "capture keys come in a list"
        raise SchemaError("wrong_type", message, preview=preview(keys))
    named = [*cast("Iterable[object]", keys)]
    if not named:
        raise SchemaError("missing_ids", "at least one capture key is required")
    if len(named) > MAX_BATCH:
        message = f"at most {MAX_BATCH:,} capture keys at once"
        raise SchemaError("too_many_ids", message, preview=str(len(named)))
    return tuple(dict.fromkeys(_checked(key, n) for n, key in enumerate(named)))


def _checked(key: object, place: int) -> str:
    try:
        if isinstance(key, str):
            return _episode(key).capture_key
    except SchemaError as error:
        where = json_path([place])
        raise SchemaError(error.code, error.message, where, preview(key)) from None
    message = "a capture key is a string"
    raise SchemaError("wrong_type", message, json_path([place]), preview(key))


class CaptureLedger:
    """The ledgers below a directory, which one process writes; safe between threads.

    Args:
        root: The directory; it is made if it does not exist.
    """

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = root
        self._lock = RLock()
        self._known: OrderedDict[str, dict[str, bytes]] = OrderedDict()
        """Digests of lines by call, of the ledgers that were used last."""

    def append(self, key: str, row: LedgerRow) -> bool:
        """Add a row, and wait until it is on the disk.

        The same row again changes nothing. A late row of a retired key is discarded.

        Returns:
            Whether the ledger has it.

        Raises:
            LedgerError: ``row_conflict``: the call has another row already;
                ``ledger_damaged``.
            SchemaError: The key is not a capture key.
            OSError: It cannot be written; the ledger is as it was.
        """
        line = row_line(row)
        digest = _digest(line)
        with self._lock:
            known = self._lines(key)
            before = known.get(row.model_call_id)
            if before is not None and before != digest:
                message = f"call {row.model_call_id} has another row"
                raise LedgerError("row_conflict", message)
            if before is None and not self._add(key, row, line):
                return False
            known[row.model_call_id] = digest
            return True

    def _add(self, key: str, row: LedgerRow, line: bytes) -> bool:
        path = self._path(key, _LEDGER)
        is_new = not path.exists()
        # Only here: a ledger that exists was there before any retire of its key.
        if is_new and self._is_late(key, row):
            return False
        try:
            _append(path, line)
        except OSError:
            self._known.pop(key, None)
            raise
        if is_new:
            sync_directory(self._root)
            # Another process may have retired the key while the file was made.
            if self._is_late(key, row):
                _unlink(path)
                return False
        return True

    def _is_late(self, key: str, row: LedgerRow) -> bool:
        if not self._path(key, _FENCE).exists():
            return False
        staged = row.staging_key if isinstance(row, CommittedRow) else None
        _log.warning("late row of %s discarded; it staged %s", key, staged)
        return True

    def rows(self, key: str) -> tuple[LedgerRow, ...]:
        """Read a ledger; one that does not exist has no rows.

        Raises:
            LedgerError: ``is_retired`` or ``ledger_damaged``.
            SchemaError: The key is not a capture key.
        """
        if self._path(key, _FENCE).exists():
            raise LedgerError("is_retired", f"{key} is retired")
        with self._lock:
            return tuple(row for row, _ in self._read(key))

    def manifest(self, key: str) -> JsonObject:
        """Write the manifest of a ledger.

        Raises:
            LedgerError: As ``rows``.
            SchemaError: The key is not a capture key.
        """
        return capture_manifest(key, self.rows(key))

    def retire(self, keys: Iterable[str]) -> LedgerRemoval:
        """Fence keys, and remove their ledgers; a repeated retire writes nothing.

        Raises:
            SchemaError: As ``checked_keys``.
            OSError: A file cannot be made or removed; the same retire may be repeated.
        """
        checked = checked_keys(keys)
        with self._lock:
            for fence in (self._path(key, _FENCE) for key in checked):
                if not fence.exists():
                    fence.touch()
            # A ledger must not be gone before its fence is sure: a late row would make
            # another one, as if nothing had been retired.
            sync_directory(self._root)
            return self._removal(checked, self._unlink_fenced)

    def _unlink_fenced(self, key: str) -> bool:
        # Somebody may have deleted the key meanwhile, and begun it again.
        if not self._path(key, _FENCE).exists():
            return False
        return _unlink(self._path(key, _LEDGER))

    def delete(self, keys: Iterable[str]) -> LedgerRemoval:
        """Remove ledgers and fences, as if the keys had never existed.

        Raises:
            SchemaError: As ``checked_keys``.
            OSError: A file cannot be removed; the same delete may be repeated.
        """
        checked = checked_keys(keys)
        with self._lock:
            removal = self._removal(
                checked, lambda key: _unlink(self._path(key, _LEDGER))
            )
            # The fences go when the rows are surely gone, so that none of them returns.
            sync_directory(self._root)
            for key in checked:
                _unlink(self._path(key, _FENCE))
            sync_directory(self._root)
            return removal

    def _removal(self, keys: tuple[str, ...], remove: Remove) -> LedgerRemoval:
        for key in keys:
            self._known.pop(key, None)
        found = {key: remove(key) for key in keys}
        return LedgerRemoval(
            removed=tuple(key for key in keys if found[key]),
            absent=tuple(key for key in keys if not found[key]),
        )

    def replace(self, ledgers: Mapping[str, Iterable[LedgerRow]]) -> None:
        """Make these the ledgers of their keys, as a restore does.

        What earlier executions have left of a key, and of later attempts of its
        rollout, goes: ledgers, fences, files of tokens. Nothing of other rollouts.

        Raises:
            LedgerError: ``row_conflict``: a call has two rows; nothing has changed.
            SchemaError: A key is not a capture key; nothing has changed.
            OSError: A file cannot be written; the same may be repeated.
        """
        targets = {_episode(key): _lines_of(rows) for key, rows in ledgers.items()}
        first: dict[str, int] = {}
        for episode in targets:
            before = first.get(episode.rollout_id, episode.attempt)
            first[episode.rollout_id] = min(before, episode.attempt)
        with self._lock:
            self._known.clear()
            # All of what goes before any of what comes: a batch may have two attempts
            # of one rollout.
            for found, path in [*self._present()]:
                if found.attempt > first.get(found.rollout_id, found.attempt):
                    _unlink(path)
            for episode, lines in targets.items():
                self._write(episode.capture_key, lines)
                for suffix in (_FENCE, _TOKENS, _INCOMPLETE):
                    _unlink(self._path(episode.capture_key, suffix))
            sync_directory(self._root)

    def _write(self, key: str, lines: bytes) -> None:
        path = self._path(key, _LEDGER)
        if lines:
            write_atomically(path, lines)
        else:
            _unlink(path)

    def _present(self) -> Iterator[tuple[EpisodeId, Path]]:
        for entry in os.scandir(self._root):
            for suffix in _SUFFIXES:
                # What has another name is not ours.
                with suppress(SchemaError):
                    if entry.name.endswith(suffix):
                        key = entry.name.removesuffix(suffix)
                        yield _episode(key), Path(entry.path)

    def _path(self, key: str, suffix: str) -> Path:
        # A capture key has no slash and does not begin with a dot.
        return self._root / f"{_episode(key).capture_key}{suffix}"

    def _lines(self, key: str) -> dict[str, bytes]:
        if key not in self._known:
            found = {row.model_call_id: _digest(line) for row, line in self._read(key)}
            if found:
                # A process that died may have written them, and not waited for the disk.
                _sync(self._path(key, _LEDGER))
                sync_directory(self._root)
            self._known[key] = found
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]

    def _read(self, key: str) -> list[tuple[LedgerRow, bytes]]:
        path = self._path(key, _LEDGER)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return []
        whole, _, torn = data.rpartition(b"\n")
        if torn:
            # A crash while it was written: nobody was told that it is there.
            os.truncate(path, len(data) - len(torn))
        found: dict[str, tuple[LedgerRow, bytes]] = {}
        for number, text in enumerate(whole.split(b"\n") if whole else (), 1):
            line = text + b"\n"
            row = _row_at(path.name, number, line)
            if row.model_call_id in found:
                message = f"{path.name}, line {number}: its call has a row already"
                raise LedgerError("ledger_damaged", message)
            found[row.model_call_id] = row, line
        return [*found.values()]


def _episode(key: str) -> EpisodeId:
    if len(key) > MAX_KEY:
        message = f"a capture key has at most {MAX_KEY} characters here"
        raise SchemaError("invalid_rollout_id", message, preview=preview(key))
    return EpisodeId.from_capture_key(key)


def _lines_of(rows: Iterable[LedgerRow]) -> bytes:
    lines: dict[str, bytes] = {}
    for row in rows:
        if row.model_call_id in lines:
            message = f"call {row.model_call_id} has two rows"
            raise LedgerError("row_conflict", message)
        lines[row.model_call_id] = row_line(row)
    return b"".join(lines.values())


def _row_at(name: str, number: int, line: bytes) -> LedgerRow:
    try:
        return read_row(line)
    except IpiStateError as error:
        message = f"{name}, line {number}: {error}"
        raise LedgerError("ledger_damaged", message) from error


def _digest(line: bytes) -> bytes:
    return sha256(line).digest()


def _append(path: Path, line: bytes) -> None:
    with path.open("ab", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        except OSError:
            # A part of a line would spoil the next one.
            with suppress(OSError):
                file.truncate(size)
            raise


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _unlink(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
