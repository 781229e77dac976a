"""Real processes, killed before, in and after each system call of a write and a read.

What they leave is no checkpoint or a whole one, and the directory can be used again.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys

from collections.abc import Callable, Iterator
from pathlib import Path

import durability
import pytest

from evidence import Table

from ipistate.errors import CheckpointError


HERE = Path(__file__).parent

directory_at, found, write = durability.directory_at, durability.found, durability.write
CODEC, THEIRS = durability.CODEC, durability.THEIRS

WRITING, READING = durability.names_of_steps()
LINK = WRITING.index("link manifest")
MOMENTS = ("before", "halfway", "after")


TABLES = (
    Table("killed while writing", MOMENTS, WRITING),
    Table("killed while reading", ("before", "after"), READING),
)


@pytest.fixture
def tables(request: pytest.FixtureRequest) -> list[Table]:
    """Return the two tables, which are printed at the end."""
    return [table.of(request.node) for table in TABLES]


@pytest.fixture(scope="module")
def killed() -> Iterator[Callable[..., int]]:
    """Return a function that has a process killed and gives its exit status."""
    command = [sys.executable, str(Path(durability.__file__).with_name("crashing.py"))]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as driver:

        def kill(**asked: str) -> int:
            assert driver.stdin is not None
            driver.stdin.write(json.dumps(asked) + "\n")
            driver.stdin.flush()
            assert driver.stdout is not None
            return int(driver.stdout.readline())

        yield kill


@pytest.mark.parametrize(
    ("step", "moment"),
    [
        (step, moment)
        for step in WRITING
        for moment in MOMENTS
        if moment != "halfway" or step.startswith("write")
    ],
)
def test_b38_a_writer_that_is_killed(
    tmp_path: Path,
    killed: Callable[..., int],
    tables: list[Table],
    step: str,
    moment: str,
) -> None:
    """From the link on the checkpoint is whole, before it there is none."""
    status = killed(base=str(tmp_path), work="write", step=step, moment=moment)
    directory = directory_at(tmp_path)
    holds = found(directory)
    tables[0].enter(step, moment, holds)
    number = WRITING.index(step)
    published = number > LINK or (number == LINK and moment == "after")

    assert (-signal.SIGKILL, "ours" if published else "nothing") == (status, holds)
    if published:
        assert write(directory) == directory.read(CODEC).manifest
        with pytest.raises(CheckpointError):
            write(directory, THEIRS, "c2")
    else:
        write(directory, THEIRS, "c2")
    assert found(directory) == ("ours" if published else "the rival's")


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", READING)
def test_a_reader_that_is_killed(
    tmp_path: Path,
    killed: Callable[..., int],
    tables: list[Table],
    step: str,
    moment: str,
) -> None:
    """A checkpoint is as good as before, whenever its reader died."""
    directory = directory_at(tmp_path)
    write(directory)
    status = killed(base=str(tmp_path), work="read", step=step, moment=moment)
    holds = found(directory)
    tables[1].enter(step, moment, holds)

    assert (-signal.SIGKILL, "ours") == (status, holds)
