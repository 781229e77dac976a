"""``ipistate tasks audit``."""

from __future__ import annotations

import json

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ipistate.cli import tasks_audit
from ipistate.generate import builtin
from ipistate.kernel.codec import encode
from ipistate.kernel.schema import unstructure
from ipistate.scoring.audit import Judgement, audit
from ipistate.scoring.task import Task
from ipistate.tools.transition import ToolCall


if TYPE_CHECKING:
    from click.testing import Result


@pytest.fixture
def files(write: Callable[..., Path]) -> tuple[Path, Path]:
    """Write two built-in rows and the trajectories of the second one."""
    second = json.loads(encode(unstructure(builtin.trajectories()[1])))
    rows = write("tasks.jsonl", *[task.to_json() for task in builtin.rows()[:2]])
    return rows, write("ways.jsonl", second)


def test_built_in_rows(run: Callable[..., Result]) -> None:
    """Without a file each built-in row has a line; nothing is found."""
    result = run("tasks", "audit")
    lines = result.stdout.splitlines()

    assert (0, "") == (result.exit_code, result.stderr)
    assert ["row", "mutants", "trace", "effects", "unexplained"] == lines[0].split()
    assert ["total", "0"] == lines[28].split()[::4]
    assert 30 == len(lines)
    assert " reads_only, " in lines[-1]


def test_the_report_of_the_manual(run: Callable[..., Result]) -> None:
    """The guide shows what the command writes."""
    guide = Path(__file__).parents[2] / "docs" / "guides" / "tasks.md"

    assert f"```text\n{run('tasks', 'audit').stdout}```" in guide.read_text("utf-8")


def test_a_file(run: Callable[..., Result], files: tuple[Path, Path]) -> None:
    """Rows without trajectories have fewer mutants, which is said beside the report."""
    rows, ways = files
    result = run("tasks", "audit", rows, "--trajectories", ways)
    first, second = (line.split() for line in result.stdout.splitlines()[1:3])

    assert 0 == result.exit_code
    assert "1 row has no trajectories" in result.stderr
    assert (["row", "0"], ["row", "1"]) == (first[:2], second[:2])
    assert int(first[2]) < 10 < int(second[2])


def test_json(run: Callable[..., Result], files: tuple[Path, Path]) -> None:
    """With --json every accepted mutant stands in its row, with its reason."""
    rows, ways = files
    result = run("tasks", "audit", rows, "--trajectories", ways, "--json")
    shown = json.loads(result.stdout)
    total = shown["total"]

    assert str(rows) == shown["file"]
    assert [0, 1] == [row["row"] for row in shown["rows"]]
    assert total["mutants"] == sum(row["mutants"] for row in shown["rows"])
    accepted = [one for row in shown["rows"] for one in row["accepted"]]
    assert sum(total["reasons"].values()) == len(accepted)
    assert {"reads_only", "free_text"} < {one["reason"] for one in accepted}


def test_findings(
    run: Callable[..., Result],
    document: Callable[..., Any],
    files: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a check lets pass is told with old and new value; the exit code is 1."""

    def everything(
        *_: tuple[ToolCall, ...] | Mapping[str, Any] | Task,
    ) -> Callable[..., Judgement]:
        return lambda _: Judgement(useful=True, followed=True)

    monkeypatch.setattr(tasks_audit, "audit", partial(audit, effects=everything))
    rows, _ = files
    result = run("tasks", "audit", rows)
    told = (
        "row 1: injection call 0 (cancel_appointment): other_id appointment_id "
        '"A-5511" -> "A-5512": accepted by effects'
    )

    assert 1 == result.exit_code
    assert told in result.stdout.splitlines()
    assert "row 0: injection call 0 (send_message): missing_call: accepted by" in (
        result.stdout
    )
    found = document("tasks", "audit", "--json", code=1)
    assert 0 < found["total"]["unexplained"]


def test_unsound_references(
    run: Callable[..., Result], write: Callable[..., Path], files: tuple[Path, Path]
) -> None:
    """A trajectory that does not do its work is a finding."""
    rows, ways = files
    both = json.loads(ways.read_text())
    poor = write("poor.jsonl", {**both, "benign": [], "compromised": []})
    result = run("tasks", "audit", rows, "--trajectories", poor)

    assert 1 == result.exit_code
    assert "row 1: the benign trajectory itself is not accepted" in result.stdout
    assert "row 1: the injection's own call does not count as followed" in result.stdout


@pytest.mark.parametrize(
    ("line", "place", "code"),
    [
        ({"row": 2, "benign": [], "compromised": []}, ", line 1: $.row", "unknown_row"),
        ({"row": "0"}, ", line 1: $", "wrong_type"),
        (b"{", ", line 1: $", "syntax"),
    ],
)
def test_refused_trajectories(
    run: Callable[..., Result],
    write: Callable[..., Path],
    files: tuple[Path, Path],
    line: bytes | dict[str, Any],
    place: str,
    code: str,
) -> None:
    """The refusal names the file, the line and the path."""
    ways = write("bad.jsonl", line)
    result = run("tasks", "audit", files[0], "--trajectories", ways)

    assert 3 == result.exit_code
    assert f"{ways}{place}" in result.stderr
    assert code in result.stderr


def test_a_row_with_trajectories_twice(
    run: Callable[..., Result], write: Callable[..., Path], files: tuple[Path, Path]
) -> None:
    """It cannot be known which ones are meant."""
    line = json.loads(files[1].read_text())
    result = run("tasks", "audit", files[0], "--trajectories", write("w", line, line))

    assert 3 == result.exit_code
    assert "[duplicate_row]" in result.stderr


def test_trajectories_need_rows(
    run: Callable[..., Result], files: tuple[Path, Path]
) -> None:
    """The built-in rows have their own."""
    result = run("tasks", "audit", "--trajectories", files[1])

    assert (2, "") == (result.exit_code, result.stdout)
