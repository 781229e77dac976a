"""Every step of writing and reading a checkpoint, with every fault: the outcome.

The table is printed below the test results. A cell says what the directory holds and what
the caller was told after the fault at that step.
"""

from __future__ import annotations

import errno
import os

from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any, NoReturn

import durability
import pytest

from evidence import Table

from ipistate.errors import CheckpointError
from ipistate.protocol.records import Manifest
from ipistate.storage.checkpoint_directory import StopFlag


directory_at, found, write = durability.directory_at, durability.found, durability.write
temporary_files, CODEC = durability.temporary_files, durability.CODEC
OURS, THEIRS = durability.OURS, durability.THEIRS

WRITING, READING = durability.names_of_steps()
ERRORS = ("ENOSPC", "EIO", "EACCES")
HALF = "half, then ENOSPC"

LINK = WRITING.index("link manifest")


TABLES = (
    Table("fault while writing", (*ERRORS, HALF, "rival", "twin", "stop"), WRITING),
    Table("fault while reading", (*ERRORS, "rival"), READING),
)


@pytest.fixture
def tables(request: pytest.FixtureRequest) -> list[Table]:
    """Return the two tables, which are printed at the end."""
    return [table.of(request.node) for table in TABLES]


def at(
    step: str, moment: str, act: Callable[..., Manifest | None]
) -> tuple[Callable[..., None], list[Callable[..., Manifest | None]]]:
    """Return a notice that acts once, at one moment of one step."""
    left = [act]

    def notice(now: str, one: durability.Step) -> None:
        if (now, one.name) == (moment, step) and left:
            left.pop()()

    return notice, left


def fails(name: str) -> Callable[..., None]:
    """Return what raises an error of the system."""
    code = getattr(errno, name)

    def act() -> NoReturn:
        raise OSError(code, os.strerror(code))

    return act


def attempt(
    base: Path,
    notice: Callable[..., None],
    call: Callable[..., Any],
    *arguments: object,
) -> str:
    """Call with a watch; tell whether it was refused."""
    with durability.Watch(base, notice).watching():
        try:
            call(*arguments)
        except CheckpointError as error:
            return "refused" if error.code == "invalid_checkpoint_state" else error.code
    return "done"


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        *((step, fault) for step in WRITING for fault in ERRORS),
        *((step, HALF) for step in WRITING if step.startswith("write")),
    ],
)
def test_a_step_of_a_write_that_fails(
    tmp_path: Path, tables: list[Table], step: str, fault: str
) -> None:
    """No manifest before the link, a whole checkpoint after it; then it works again."""
    directory = directory_at(tmp_path)
    if fault == HALF:
        notice, left = at(step, "halfway", fails("ENOSPC"))
    else:
        notice, left = at(step, "before", fails(fault))
    told = attempt(tmp_path, notice, write, directory)
    holds = found(directory)
    tables[0].enter(step, fault, f"{told}, {holds}")
    if step.startswith("unlink"):
        expected, left_behind = ("done", "ours"), 1  # it stays, and stops nobody
    else:
        published = WRITING.index(step) > LINK
        expected, left_behind = ("refused", "ours" if published else "nothing"), 0

    assert (expected, []) == ((told, holds), left)
    assert left_behind >= len(temporary_files(tmp_path))
    write(directory)
    assert "ours" == found(directory)


@pytest.mark.parametrize("step", WRITING)
def test_a_rival_that_writes_at_any_step(
    tmp_path: Path, tables: list[Table], step: str
) -> None:
    """One checkpoint is published, whole, and never replaced; the other is refused."""
    directory = directory_at(tmp_path)
    said: list[str] = []

    def rival() -> None:
        try:
            write(directory, THEIRS, "c2")
            said.append("done")
        except CheckpointError:
            said.append("refused")

    notice, _ = at(step, "before", rival)
    told = attempt(tmp_path, notice, write, directory)
    holds = found(directory)
    tables[0].enter(step, "rival", f"{told}, {holds}")
    first = WRITING.index(step) > LINK

    assert (told, said, holds) == (
        ("done", ["refused"], "ours") if first else ("refused", ["done"], "the rival's")
    )
    assert [] == temporary_files(tmp_path)
    assert 2 == len(list((tmp_path / "checkpoint/gym/resources/ipi").iterdir()))


@pytest.mark.parametrize("step", WRITING)
def test_a_twin_that_writes_the_same_at_any_step(
    tmp_path: Path, tables: list[Table], step: str
) -> None:
    """Two writers of one checkpoint both succeed, with one manifest."""
    directory = directory_at(tmp_path)
    notice, left = at(step, "before", lambda: write(directory))
    told = attempt(tmp_path, notice, write, directory)
    holds = found(directory)
    tables[0].enter(step, "twin", f"{told}, {holds}")

    assert (("done", "ours"), []) == ((told, holds), left)
    assert [] == temporary_files(tmp_path)


@pytest.mark.parametrize("step", WRITING)
def test_a_stop_at_any_step(tmp_path: Path, tables: list[Table], step: str) -> None:
    """Once a stop has returned, no manifest appears that was not there already."""
    directory, stop, threads = directory_at(tmp_path), StopFlag(), []
    holds_one = (tmp_path / "checkpoint/gym/resources/ipi/manifest.json").exists
    late = WRITING.index(step) >= WRITING.index("rename to records")
    seen: list[bool] = []

    def stop_and_look() -> None:
        stop.stop()
        seen.append(holds_one())

    def stopping() -> None:
        # In a thread, since it waits while a publication is running.
        threads.append(Thread(target=stop_and_look))
        threads[0].start()
        if not late:
            threads[0].join()

    notice, _ = at(step, "before", stopping)
    told = attempt(tmp_path, notice, write, directory, OURS, "c1", stop)
    threads[0].join()
    holds = found(directory)
    tables[0].enter(step, "stop", f"{told}, {holds}")

    assert (told, holds) == (("done", "ours") if late else ("refused", "nothing"))
    assert [late] == seen
    assert [] == temporary_files(tmp_path)
    assert write(directory) == directory.read(CODEC).manifest


@pytest.mark.parametrize("fault", ERRORS)
@pytest.mark.parametrize("step", READING)
def test_a_step_of_a_read_that_fails(
    tmp_path: Path, tables: list[Table], step: str, fault: str
) -> None:
    """A read that fails is refused, changes nothing, and works the next time."""
    directory = directory_at(tmp_path)
    write(directory)
    notice, left = at(step, "before", fails(fault))
    told = attempt(tmp_path, notice, directory.read, CODEC)
    holds = found(directory)
    tables[1].enter(step, fault, f"{told}, {holds}")

    assert (("refused", "ours"), []) == ((told, holds), left)


@pytest.mark.parametrize("step", READING)
def test_a_rival_that_writes_while_a_checkpoint_is_read(
    tmp_path: Path, tables: list[Table], step: str
) -> None:
    """What is published does not change under a reader."""
    directory = directory_at(tmp_path)
    write(directory)
    refused: list[bool] = []

    def rival() -> None:
        with pytest.raises(CheckpointError):
            write(directory, THEIRS, "c2")
        refused.append(True)

    notice, _ = at(step, "before", rival)
    told = attempt(tmp_path, notice, directory.read, CODEC)
    holds = found(directory)
    tables[1].enter(step, "rival", f"{told}, {holds}")

    assert (("done", "ours"), [True]) == ((told, holds), refused)
