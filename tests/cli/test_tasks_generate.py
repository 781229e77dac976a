"""``ipistate tasks generate`` and ``ipistate tasks stats``."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ipistate import Task
from ipistate.generate import DOMAINS, generate


if TYPE_CHECKING:
    from click.testing import Result


def lines(path: Path) -> list[bytes]:
    """Return the lines of a file."""
    return path.read_bytes().splitlines()


def test_rows_and_trajectories(run: Callable[..., Result], tmp_path: Path) -> None:
    """The rows are those of the library, their trajectories stand beside them."""
    file = tmp_path / "tasks.jsonl"
    result = run("tasks", "generate", "--count", 12, "--seed", 3, "-o", file)
    beside = tmp_path / "tasks.trajectories.jsonl"
    expected = list(generate(tuple(DOMAINS), 12, 3))

    assert 0 == result.exit_code
    assert f"wrote 12 rows: {file} and {beside}\n" == result.stderr
    assert [one.task.to_json() for one in expected] == lines(file)
    assert [one.trajectories.to_json() for one in expected] == lines(beside)
    assert 2 == len(list(tmp_path.iterdir()))


def test_written_rows_pass_check_and_audit(
    run: Callable[..., Result],
    document: Callable[..., Any],
    tmp_path: Path,
) -> None:
    """What is generated has no finding, and its references prove what they should."""
    file, ways = tmp_path / "t.jsonl", tmp_path / "t.trajectories.jsonl"
    run("tasks", "generate", "--count", 9, "-o", file)

    assert run("tasks", "check", file).stdout == "9 rows, 0 errors, 0 warnings\n"
    audited = document("tasks", "audit", file, "--trajectories", ways, "--json")
    assert 0 == audited["total"]["unexplained"]


def test_pipe(run: Callable[..., Result]) -> None:
    """With - the rows go to standard output, and no other file is written."""
    result = run("tasks", "generate", "--count", 2, "--domain", "hr", "-o", "-")
    rows = [Task.from_json(line) for line in result.stdout.splitlines()]

    assert (0, "") == (result.exit_code, result.stderr)
    assert ["hr", "hr"] == [row.domain for row in rows]


def test_trajectories_of_a_pipe(run: Callable[..., Result], tmp_path: Path) -> None:
    """Rows may go to standard output and their trajectories to a file."""
    ways = tmp_path / "ways.jsonl"
    result = run("tasks", "generate", "--count", 3, "-o", "-", "--trajectories", ways)

    assert (0, 3, 3) == (
        result.exit_code,
        len(result.stdout.splitlines()),
        len(lines(ways)),
    )


@pytest.mark.parametrize("name", ["tasks.jsonl", "tasks.trajectories.jsonl"])
def test_nothing_is_overwritten(
    run: Callable[..., Result], tmp_path: Path, name: str
) -> None:
    """A file that exists, of rows or trajectories, stays as it is without --force."""
    (tmp_path / name).write_bytes(b"precious")
    arguments = ("tasks", "generate", "--count", 1, "-o", tmp_path / "tasks.jsonl")
    refused = run(*arguments)

    assert 3 == refused.exit_code
    assert "exists already; --force writes it anew" in refused.stderr
    assert [b"precious"] == [p.read_bytes() for p in tmp_path.iterdir()]
    assert 0 == run(*arguments, "--force").exit_code
    assert 1 == len(lines(tmp_path / "tasks.jsonl"))


def test_full_disk(run: Callable[..., Result], tmp_path: Path) -> None:
    """A disk that is full is named, and leaves the older rows as they were."""
    file = tmp_path / "t.jsonl"
    file.write_bytes(b"precious")
    full = run(
        *("tasks", "generate", "--count", 200, "--force"),
        *("-o", file, "--trajectories", "/dev/full"),
    )

    assert (3, "Error: /dev/full: No space left on device\n") == (
        full.exit_code,
        full.stderr,
    )
    assert [b"precious"] == [p.read_bytes() for p in tmp_path.iterdir()]
    assert Path("/dev/full").is_char_device()


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        (
            "--domain",
            "hq",
            "no domain is called 'hq'; write all, or some of healthcare",
        ),
        ("--domain", "", "no domain is called ''"),
        ("--size", "1k", "a world has 2k to 500k"),
        ("--size", "9k-3k", "the smaller number first"),
        ("--size", "600k", "a world has 2k to 500k"),
        ("--size", "big", "'big' is no size; write 8k or 2k-50k"),
        ("--count", "0", "0 is not in the range"),
        ("--seed", "x", "'x' is not a valid integer"),
    ],
)
def test_bad_options(
    run: Callable[..., Result], tmp_path: Path, option: str, value: str, told: str
) -> None:
    """An option that makes no sense says what would, before anything is written."""
    result = run("tasks", "generate", "-o", tmp_path / "t.jsonl", option, value)

    assert 2 == result.exit_code
    assert told in " ".join(result.stderr.split())
    assert [] == list(tmp_path.iterdir())


def test_one_file_for_two(run: Callable[..., Result], tmp_path: Path) -> None:
    """Rows and trajectories cannot go to one file."""
    file = tmp_path / "t.jsonl"
    result = run("tasks", "generate", "-o", file, "--trajectories", file)

    assert 2 == result.exit_code


def test_missing_directory(run: Callable[..., Result], tmp_path: Path) -> None:
    """A directory that is not there is found out before the work."""
    result = run("tasks", "generate", "-o", tmp_path / "none" / "t.jsonl")

    assert 3 == result.exit_code
    assert "no file can be written here" in result.stderr


@pytest.mark.parametrize("text", ["3000-4000", "3k-4k", "3k..4k"])
def test_sizes(
    run: Callable[..., Result],
    document: Callable[..., Any],
    text: str,
) -> None:
    """A range of sizes is written with a hyphen or two dots, k meaning a thousand."""
    rows = run("tasks", "generate", "--size", text, "--count", 9, "-o", "-").stdout
    sizes = document("tasks", "stats", "-", "--json", given=rows)["sizes"]

    assert 3_000 <= sizes["world_bytes"]["smallest"]
    assert sizes["world_bytes"]["largest"] < 5_500


def test_reader_that_leaves(tmp_path: Path) -> None:
    """A pipe whose reader has left ends the verb at once, and without a trace."""
    command = [sys.executable, "-m", "ipistate", "tasks", "generate"]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*command, "--count", "100000", "-o", "-"],
        stdout=write,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    os.close(write)

    assert (1, b"") == (done.returncode, done.stderr)


def test_stats_table(run: Callable[..., Result], tmp_path: Path) -> None:
    """The table names every label, with shares and repetitions."""
    file = tmp_path / "t.jsonl"
    run("tasks", "generate", "--count", 18, "-o", file)
    shown = run("tasks", "stats", file)

    assert 0 == shown.exit_code
    assert shown.stdout.startswith("18 rows\n")
    assert "healthcare      2  11.1 %" in shown.stdout
    assert "repeated: 0 rows, 0 prompts, 0 injection texts" in shown.stdout


def test_stats_of_other_files(
    run: Callable[..., Result], write: Callable[..., Path]
) -> None:
    """What is no task row is refused with its line; so is an empty file."""
    row = next(generate(("hr",), 1, 1)).task.to_json()
    torn = run("tasks", "stats", write("torn.jsonl", row, row[:-20]))
    empty = run("tasks", "stats", write("empty.jsonl"))

    assert (3, 3) == (torn.exit_code, empty.exit_code)
    assert "torn.jsonl, line 2" in torn.stderr
    assert "the file has no rows" in empty.stderr


def test_stats_in_json(
    document: Callable[..., Any],
    write: Callable[..., Path],
) -> None:
    """The document has counts, sizes and repetitions."""
    row = json.loads(next(generate(("hr",), 1, 1)).task.to_json())
    file = write("t.jsonl", row, row)
    shown = document("tasks", "stats", file, "--json")

    assert (str(file), 2, {"hr": 2}) == (
        shown["file"],
        shown["rows"],
        shown["counts"]["domain"],
    )
    assert {"rows": 1, "prompts": 1, "injection_texts": 1} == shown["duplicates"]
