"""The capture ledger's files: a row for each call, one file for each capture key.

A row that was appended survives a crash. A key that was retired has a fence, an empty
file, and nothing of it is read or kept any more. See docs/reference/control-plane.md,
section 6.
"""

from __future__ import annotations

import logging
import os

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

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
from ipistate.storage.atomic_file import sync_directory


MAX_BATCH: Final = 4096
"""Capture keys that one retire or delete may name."""

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
    named = list[object](keys)
    if not named:
        raise SchemaError("missing_ids", "at least one capture key is required")
    if len(named) > MAX_BATCH:
        message = f"at most {MAX_BATCH:,} capture keys at once"
        raise SchemaError("too_many_ids", message, preview=str(len(named)))
    return tuple(dict.fromkeys(_checked(key, n) for n, key in enumerate(named)))


def _checked(key: object, place: int) -> str:
    try:
        if isinstance(key, str):
            return EpisodeId.from_capture_key(key).capture_key
    except SchemaError as error:
        where = json_path([place])
        raise SchemaError(error.code, error.message, where, preview(key)) from None
    message = "a capture key is a string"
    raise SchemaError("wrong_type", message, json_path([place]), preview(key))


class CaptureLedger:
    """The ledgers below a directory, which one process writes.

    Args:
        root: The directory; it is made if it does not exist.
    """

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = root
        self._lines: dict[str, dict[str, bytes]] = {}
        """The lines of the ledgers that were looked at, by call."""

    def append(self, key: str, row: LedgerRow) -> bool:
        """Add a row, and wait until it is on the disk.

        The same row again changes nothing. A late row of a retired key is discarded.

        Returns:
            Whether the ledger has it.

        Raises:
            LedgerError: ``row_conflict``: the call has another row already.
            SchemaError: The key is not a capture key.
            OSError: It cannot be written.
        """
        path, line, known = self._path(key, _LEDGER), row_line(row), self._known(key)
        before = known.get(row.model_call_id)
        if before == line:
            return True
        if before is not None:
            message = f"call {row.model_call_id} has another row"
            raise LedgerError("row_conflict", message)
        is_new = not path.exists()
        # Only here: a ledger that exists was there before any retire of its key.
        if is_new and self._path(key, _FENCE).exists():
            staged = row.staging_key if isinstance(row, CommittedRow) else None
            _log.warning("late row of %s discarded; it staged %s", key, staged)
            return False
        with path.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            sync_directory(self._root)
        known[row.model_call_id] = line
        return True

    def rows(self, key: str) -> tuple[LedgerRow, ...]:
        """Read a ledger; one that does not exist has no rows.

        Raises:
            LedgerError: ``is_retired`` or ``ledger_damaged``.
            SchemaError: The key is not a capture key.
        """
        if self._path(key, _FENCE).exists():
            raise LedgerError("is_retired", f"{key} is retired")
        return tuple(map(read_row, self._known(key).values()))

    def manifest(self, key: str) -> JsonObject:
        """Write the manifest of a ledger.

        Raises:
            LedgerError: As ``rows``.
            SchemaError: The key is not a capture key.
        """
        return capture_manifest(key, self.rows(key))

    def retire(self, keys: Iterable[str]) -> LedgerRemoval:
        """Fence keys, and remove their ledgers; a repeated retire changes nothing.

        Raises:
            SchemaError: As ``checked_keys``.
            OSError: A file cannot be made or removed; the same retire may be repeated.
        """
        checked = checked_keys(keys)
        for key in checked:
            self._path(key, _FENCE).touch()
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
        # The fence goes last, so that no crash brings retired rows back.
        removal = self._removal(checked, lambda key: _unlink(self._path(key, _LEDGER)))
        for key in checked:
            _unlink(self._path(key, _FENCE))
        sync_directory(self._root)
        return removal

    def _removal(self, keys: tuple[str, ...], remove: Remove) -> LedgerRemoval:
        removed = tuple(key for key in keys if self._forgotten(key) and remove(key))
        absent = tuple(key for key in keys if key not in removed)
        return LedgerRemoval(removed, absent)

    def _forgotten(self, key: str) -> bool:
        self._lines.pop(key, None)
        return True

    def replace(self, ledgers: Mapping[str, Iterable[LedgerRow]]) -> None:
        """Make these the ledgers of their keys, as a restore does.

        What earlier executions have left of a key, and of later attempts of its
        rollout, goes: ledgers, fences, files of tokens. Nothing of other rollouts.

        Raises:
            SchemaError: A key is not a capture key.
            OSError: A file cannot be written; the same may be repeated.
        """
        targets = {
            EpisodeId.from_capture_key(key): rows for key, rows in ledgers.items()
        }
        present = tuple(self._present())
        for episode, rows in targets.items():
            key, lines = episode.capture_key, b"".join(map(row_line, rows))
            for found, suffix in present:
                is_later = found.attempt > episode.attempt
                if found.rollout_id == episode.rollout_id and is_later:
                    _unlink(self._path(found.capture_key, suffix))
                    self._lines.pop(found.capture_key, None)
            self._write(key, lines)
            for suffix in (_FENCE, _TOKENS, _INCOMPLETE):
                _unlink(self._path(key, suffix))
            self._lines.pop(key, None)
        sync_directory(self._root)

    def _write(self, key: str, lines: bytes) -> None:
        path = self._path(key, _LEDGER)
        if not lines:
            _unlink(path)
            return
        partial = path.with_name(f".{path.name}.part")
        with partial.open("wb") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)

    def _present(self) -> Iterator[tuple[EpisodeId, str]]:
        for entry in os.scandir(self._root):
            for suffix in _SUFFIXES:
                # What has another name is not ours.
                with suppress(SchemaError):
                    if entry.name.endswith(suffix):
                        key = entry.name.removesuffix(suffix)
                        yield EpisodeId.from_capture_key(key), suffix

    def _path(self, key: str, suffix: str) -> Path:
        # A capture key has no slash and does not begin with a dot.
        return self._root / f"{EpisodeId.from_capture_key(key).capture_key}{suffix}"

    def _known(self, key: str) -> dict[str, bytes]:
        if key not in self._lines:
            self._lines[key] = self._read(key)
        return self._lines[key]

    def _read(self, key: str) -> dict[str, bytes]:
        path = self._path(key, _LEDGER)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return {}
        whole, _, torn = data.rpartition(b"\n")
        if torn:
            # A crash while it was written: nobody was told that it is there.
            os.truncate(path, len(data) - len(torn))
        lines: dict[str, bytes] = {}
        for number, line in enumerate(whole.split(b"\n") if whole else (), 1):
            try:
                lines[read_row(line).model_call_id] = line + b"\n"
            except IpiStateError as error:
                message = f"{path.name}, line {number}: {error}"
                raise LedgerError("ledger_damaged", message) from error
        return lines


def _unlink(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
