"""The capture ledger's files: what survives a crash, and what is refused."""

from __future__ import annotations

import os

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ipistate import SchemaError
from ipistate.capture import CommittedRow, FailureRow, LedgerRow, row_line
from ipistate.storage import CaptureLedger, LedgerError, LedgerRemoval, checked_keys
from ipistate.storage.atomic_file import sync_directory


def row(call: str = "c1", **members: Any) -> CommittedRow:
    """Make a row."""
    whole: dict[str, Any] = {
        "model_call_id": call,
        "fingerprint": "f",
        "context_len": 1,
        "context_digest": "d",
        "digest": "e",
        "staging_key": f"key/{call}",
    }
    return CommittedRow(**{**whole, **members})


@pytest.fixture
def ledger(tmp_path: Path) -> CaptureLedger:
    """Return a ledger without rows."""
    return CaptureLedger(tmp_path / "ledger")


def again(ledger: CaptureLedger) -> CaptureLedger:
    """Return the ledger as another process finds it."""
    return CaptureLedger(ledger._root)


def names(ledger: CaptureLedger) -> set[str]:
    """Name the files of a ledger."""
    return {path.name for path in ledger._root.iterdir()}


def test_rows_are_kept_in_their_order(ledger: CaptureLedger) -> None:
    """The same row again is none; another row of the call is refused."""
    rows: list[LedgerRow] = [
        row(),
        FailureRow(model_call_id="c2", failure_reason="lost"),
        row("c3"),
    ]
    assert all(ledger.append("r-a1", one) for one in rows)
    assert ledger.append("r-a1", row())
    with pytest.raises(LedgerError) as caught:
        ledger.append("r-a1", row(weight_version=2))

    assert "row_conflict" == caught.value.code
    assert tuple(rows) == ledger.rows("r-a1") == again(ledger).rows("r-a1")
    assert () == ledger.rows("r")
    assert {"r-a1.lineage.jsonl"} == names(ledger)


def test_a_retired_key_is_fenced(
    ledger: CaptureLedger, caplog: pytest.LogCaptureFixture
) -> None:
    """Late rows are discarded, and the log names what they staged; reads are refused."""
    ledger.append("r", row())
    assert LedgerRemoval(("r",), ("s",)) == ledger.retire(["r", "s", "r"])
    assert not ledger.append("r", row("late"))
    assert "key/late" in caplog.text
    with pytest.raises(LedgerError) as caught:
        ledger.manifest("r")
    assert "is_retired" == caught.value.code
    assert LedgerRemoval((), ("r",)) == again(ledger).retire(["r"])
    assert {"r.lineage.retired", "s.lineage.retired"} == names(ledger)


def test_a_deleted_key_may_begin_again(ledger: CaptureLedger) -> None:
    """Neither rows nor fence stay."""
    ledger.append("r", row())
    ledger.retire(["s"])
    assert LedgerRemoval(("r",), ("s",)) == ledger.delete(["r", "s"])
    assert set() == names(ledger)
    assert ledger.append("s", row())


def test_a_key_that_is_begun_again_while_it_is_retired(
    ledger: CaptureLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delete between fence and removal wins: its new ledger stays."""
    ledger.append("r", row())
    rival, name = again(ledger), "ipistate.storage.ledger.sync_directory"

    def sync(path: Path) -> None:
        monkeypatch.setattr(name, sync_directory)
        sync_directory(path)
        rival.delete(["r"])
        rival.append("r", row("new"))

    monkeypatch.setattr(name, sync)
    ledger.retire(["r"])

    assert (row("new"),) == again(ledger).rows("r")


def test_an_import_replaces_later_attempts(ledger: CaptureLedger) -> None:
    """Of this rollout only, whatever the others are called."""
    for key in ("r", "r-a1", "r-a2", "r-a10", "r1-a2", "r-a1x-a3"):
        ledger.append(key, row(f"of-{key}"))
    ledger.retire(["r-a3"])
    for name in ("r-a1.tokens.jsonl", "r-a2.tokens.incomplete", "notes.txt", ".x"):
        (ledger._root / name).touch()
    ledger.replace({"r-a1": [row("new")], "other": []})

    assert {
        *("r.lineage.jsonl", "r-a1.lineage.jsonl", "r1-a2.lineage.jsonl"),
        *("r-a1x-a3.lineage.jsonl", "notes.txt", ".x"),
    } == names(ledger)
    assert (row("new"),) == ledger.rows("r-a1") == again(ledger).rows("r-a1")
    assert ledger.append("r-a2", row())


def test_an_import_of_two_attempts_of_a_rollout(ledger: CaptureLedger) -> None:
    """In any order each has its rows; one that is wrong changes nothing."""
    ledger.append("r-a1", row("old"))
    for keys in (("r", "r-a1"), ("r-a1", "r")):
        ledger.replace({key: [row(f"of-{key}")] for key in keys})
        for key in keys:
            assert (row(f"of-{key}"),) == ledger.rows(key)
    with pytest.raises(LedgerError) as caught:
        ledger.replace({"r": [], "s": [row(), row(weight_version=2)]})

    assert "row_conflict" == caught.value.code
    assert (row("of-r"),) == again(ledger).rows("r")


def test_a_disk_that_is_full(
    ledger: CaptureLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a line is taken back; when there is room the row is added once."""
    ledger.append("r", row())
    size = (ledger._root / "r.lineage.jsonl").stat().st_size
    with monkeypatch.context() as full:

        def fsync(_: int) -> None:
            raise OSError(28, "no space left")

        full.setattr(os, "fsync", fsync)
        with pytest.raises(OSError, match="no space"):
            ledger.append("r", row("c2"))
    assert size == (ledger._root / "r.lineage.jsonl").stat().st_size
    assert ledger.append("r", row("c2"))

    assert (row(), row("c2")) == again(ledger).rows("r")


def test_a_row_that_is_there_is_synced_before_it_is_acknowledged(
    ledger: CaptureLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that wrote it may have died before it was on the disk."""
    ledger.append("r", row())
    synced: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(descriptor)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    other = again(ledger)
    assert other.append("r", row())
    assert 2 == len(synced)
    assert other.append("r", row())
    assert 2 == len(synced)


def test_a_retire_while_a_ledger_is_made(
    ledger: CaptureLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fence of another process wins, and no ledger stays beside it."""
    rival, name = again(ledger), "ipistate.storage.ledger.sync_directory"

    def sync(path: Path) -> None:
        monkeypatch.setattr(name, sync_directory)
        rival.retire(["r"])
        sync_directory(path)

    monkeypatch.setattr(name, sync)
    assert not ledger.append("r", row())
    assert {"r.lineage.retired"} == names(ledger)


def test_only_the_ledgers_used_last_are_remembered(
    ledger: CaptureLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are read again, and are the same."""
    monkeypatch.setattr("ipistate.storage.ledger.REMEMBERED", 2)
    for _ in range(2):
        for key in ("a", "b", "c"):
            assert ledger.append(key, row())

    assert 2 == len(ledger._known)
    assert (row(),) == ledger.rows("a")


def test_a_repeated_retire_writes_nothing(ledger: CaptureLedger) -> None:
    """Not even a time."""
    ledger.retire(["r"])
    fence = ledger._root / "r.lineage.retired"
    os.utime(fence, (1, 1))
    ledger.retire(["r"])

    assert 1 == fence.stat().st_mtime


def test_an_import_of_nothing_removes(ledger: CaptureLedger) -> None:
    """An episode without a record starts with an empty ledger, and no fence."""
    ledger.append("r", row())
    ledger.retire(["r"])
    ledger.replace({"r": []})

    assert set() == names(ledger)


def test_a_torn_line_was_never_there(ledger: CaptureLedger) -> None:
    """Nobody was told of it; the next row takes its place."""
    ledger.append("r", row())
    path = ledger._root / "r.lineage.jsonl"
    path.write_bytes(path.read_bytes() + b'{"model_call_id":"c2"')
    after = again(ledger)

    assert (row(),) == after.rows("r")
    assert after.append("r", row("c2"))
    assert (row(), row("c2")) == again(after).rows("r")


@pytest.mark.parametrize(
    "damage", [b"{}\n", b"\n", b"\xff\n", b'{"a"\n', row_line(row())]
)
def test_a_damaged_line_is_named(ledger: CaptureLedger, damage: bytes) -> None:
    """A row that was there must not be lost silently."""
    ledger.append("r", row())
    path = ledger._root / "r.lineage.jsonl"
    path.write_bytes(path.read_bytes() + damage)
    with pytest.raises(LedgerError) as caught:
        again(ledger).rows("r")

    assert ("ledger_damaged", True) == (
        caught.value.code,
        "line 2" in caught.value.message,
    )


BAD_BATCHES: dict[str, tuple[Any, str, str]] = {
    "none": ([], "missing_ids", "$"),
    "too many": ([f"r{n}" for n in range(4097)], "too_many_ids", "$"),
    "a bare string": ("r", "wrong_type", "$"),
    "no list": (7, "wrong_type", "$"),
    "one bad": (["r", "../r"], "invalid_rollout_id", "$[1]"),
    "no suffix": (["r-a1-a2"], "invalid_rollout_id", "$[0]"),
    "no string": (["r", None], "wrong_type", "$[1]"),
}


@pytest.mark.parametrize("case", BAD_BATCHES)
def test_a_bad_batch_changes_nothing(ledger: CaptureLedger, case: str) -> None:
    """One bad key refuses all of them."""
    keys, code, path = BAD_BATCHES[case]
    ledger.append("r", row())
    for operation in (ledger.retire, ledger.delete):
        with pytest.raises(SchemaError) as caught:
            operation(keys)
        assert (code, path) == (caught.value.code, caught.value.path)

    assert (row(),) == ledger.rows("r")
    assert 4096 == len(checked_keys([f"r{n}" for n in range(4096)]))


@pytest.mark.parametrize(
    "key", ["", "../r", "a/b", ".r", "r-a1-a1", "r\n", "\0", "r" * 201]
)
def test_no_key_leads_out_of_the_directory(ledger: CaptureLedger, key: str) -> None:
    """Every operation checks it before a path is made."""
    calls: list[Callable[[], object]] = [
        lambda: ledger.append(key, row()),
        lambda: ledger.rows(key),
        lambda: ledger.manifest(key),
        lambda: ledger.retire([key]),
        lambda: ledger.delete([key]),
        lambda: ledger.replace({key: []}),
    ]
    for call in calls:
        with pytest.raises(SchemaError):
            call()
    assert set() == names(ledger)


# Crashes between file operations


class CrashError(Exception):
    """The process dies here."""


OPERATIONS = (
    (os, "fsync"),
    (Path, "touch"),
    (Path, "unlink"),
    (Path, "replace"),
    (Path, "open"),
)


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, at: int) -> Iterator[list[str]]:
    """Count file operations, and die before the one of this number."""
    done: list[str] = []
    with monkeypatch.context() as patched:
        for owner, name in OPERATIONS:
            real = getattr(owner, name)

            def step(
                *given: Any, _real: Any = real, _name: str = name, **more: Any
            ) -> Any:
                if len(done) == at:
                    raise CrashError(_name)
                done.append(_name)
                return _real(*given, **more)

            patched.setattr(owner, name, step)
        yield done


WORK: dict[str, Callable[[CaptureLedger], object]] = {
    "first append": lambda one: one.append("new", row()),
    "append": lambda one: one.append("r", row("c2")),
    "retire": lambda one: one.retire(["r", "r-a1"]),
    "delete": lambda one: one.delete(["r", "f"]),
    "import": lambda one: one.replace({"r": [row("i")], "f": []}),
}
ALLOWED: dict[str, Callable[[CaptureLedger], bool]] = {
    "first append": lambda one: one.rows("new") in {(), (row(),)},
    "append": lambda one: one.rows("r") in {(row(),), (row(), row("c2"))},
    "retire": lambda one: retired_or(one, "r", (row(),)),
    "delete": lambda one: one.rows("r") in {(), (row(),)} and retired_or(one, "f", ()),
    "import": lambda one: one.rows("r") in {(row(),), (row("i"),)},
}
DONE: dict[str, Callable[[CaptureLedger], bool]] = {
    "first append": lambda one: one.rows("new") == (row(),),
    "append": lambda one: one.rows("r") == (row(), row("c2")),
    "retire": lambda one: retired_or(one, "r", None) and retired_or(one, "r-a1", None),
    "delete": lambda one: set() == names(one) - {"r-a1.lineage.jsonl"},
    "import": lambda one: {"r.lineage.jsonl"} == names(one),
}


def retired_or(ledger: CaptureLedger, key: str, rows: Any) -> bool:
    """Tell whether a key is retired, or has exactly these rows."""
    try:
        return bool(ledger.rows(key) == rows)
    except LedgerError as error:
        return error.code == "is_retired"


@pytest.mark.parametrize("work", WORK)
def test_a_crash_before_any_file_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    """What is left is a state before or after, and the same work again completes it."""
    for at in range(100):
        ledger = CaptureLedger(tmp_path / f"{at}")
        ledger.append("r", row())
        ledger.append("r-a1", row("b"))
        ledger.retire(["f"])
        try:
            with dying(monkeypatch, at):
                WORK[work](ledger)
        except CrashError:
            found = again(ledger)
            assert ALLOWED[work](found), (at, names(found))
            WORK[work](found)
            assert DONE[work](again(found)), (at, names(found))
        else:
            assert at > 1
            assert DONE[work](again(ledger))
            return
    pytest.fail("it never ends")
