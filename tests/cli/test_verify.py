"""``ipistate verify``."""

from __future__ import annotations

import json

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ipistate.generate import builtin


if TYPE_CHECKING:
    from click.testing import Result


def without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return a row without some members."""
    return {name: value for name, value in row.items() if name not in names}


def test_stored_rows_score_the_same(
    run: Callable[..., Result], write: Callable[..., Path], stored: list[dict[str, Any]]
) -> None:
    """Rows that carry their injection are scored again, with the same result."""
    result = run("verify", write("rows.jsonl", *stored))

    assert (0, "10 rollouts: 10 same\n") == (result.exit_code, result.stdout)


def test_changed_reward_is_a_difference(
    run: Callable[..., Result], write: Callable[..., Path], stored: list[dict[str, Any]]
) -> None:
    """A stored reward that the trace does not give is named, with exit code 1."""
    result = run("verify", write("rows.jsonl", {**stored[0], "reward": 0.5}))

    assert result.exit_code == 1
    assert "line 1: different" in result.stdout
    assert "reward is 1.0, stored 0.5" in result.stdout


@pytest.mark.parametrize(("value", "code"), [(1, 0), (True, 1)])
def test_numbers_are_compared_by_value(
    run: Callable[..., Result],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
    value: bool | int,
    code: int,
) -> None:
    """A reward stored as 1 is 1.0; one stored as true is not."""
    rows = write("rows.jsonl", {**stored[0], "reward": value})

    assert code == run("verify", rows).exit_code


def test_row_without_results_is_scored(
    document: Callable[..., Any],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
) -> None:
    """A row with nothing to compare is scored all the same."""
    names = ["reward", "reward_safety", "reward_utility", "injection_followed"]
    names += ["matched_tool", "matched_args", "thinking_incomplete"]
    file = write("rows.jsonl", without(stored[0], *names))
    (row,) = document("verify", file, "--json")["rows"]

    assert ("scored", 1.0) == (row["status"], row["computed"]["reward"])


def test_row_without_injection_is_joined_by_its_prompt(
    document: Callable[..., Any],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
) -> None:
    """Task rows give a rollout its injection if the prompt leaves no doubt."""
    rows = write("rows.jsonl", *[without(row, "injection") for row in stored])
    tasks = write("tasks.jsonl", *[task.to_json() for task in builtin.rows()])
    shown = document("verify", rows, "--tasks", tasks, "--json")

    assert {"same": 10} == shown["counts"]


def test_join_needs_the_prompt(
    document: Callable[..., Any],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
) -> None:
    """An index alone joins nothing: it depends on the file."""
    row = without(stored[0], "injection")
    row = {**row, "responses_create_params": {"input": "?"}, "_ng_task_index": 0}
    tasks = write("tasks.jsonl", builtin.rows()[0].to_json())
    shown = document("verify", write("r.jsonl", row), "--tasks", tasks, "--json")

    assert "not scored" == shown["rows"][0]["status"]
    assert "no given task row has its prompt" in shown["rows"][0]["reason"]


def _twins() -> tuple[dict[str, Any], dict[str, Any]]:
    """Two task rows with one prompt and different targets."""
    row = json.loads(builtin.rows()[0].to_json())
    other = {**row, "injection": {**row["injection"], "target_tool": "get_messages"}}
    return row, other


def test_join_refuses_two_rows_of_one_prompt(
    document: Callable[..., Any],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
) -> None:
    """Rows that share a prompt and differ otherwise leave a rollout unscored."""
    bare = without(stored[0], "injection", "_ng_task_index")
    rows = write("rows.jsonl", bare)
    shown = document("verify", rows, "--tasks", write("t.jsonl", *_twins()), "--json")

    assert "2 different task rows have its prompt" in shown["rows"][0]["reason"]


def test_index_chooses_between_rows_of_one_prompt(
    document: Callable[..., Any],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
) -> None:
    """The recorded index decides between rows that share the rollout's prompt."""
    rows = write("r.jsonl", {**without(stored[0], "injection"), "_ng_task_index": 0})
    shown = document("verify", rows, "--tasks", write("t.jsonl", *_twins()), "--json")

    assert {"same": 1} == shown["counts"]


def test_equal_rows_of_one_prompt_are_no_doubt(
    document: Callable[..., Any],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
) -> None:
    """The same row twice in a task file is still certain."""
    row, _ = _twins()
    rows = write("rows.jsonl", without(stored[0], "injection"))
    shown = document("verify", rows, "--tasks", write("t.jsonl", row, row), "--json")

    assert {"same": 1} == shown["counts"]


def test_unscored_row_is_no_finding(
    run: Callable[..., Result], write: Callable[..., Path], stored: list[dict[str, Any]]
) -> None:
    """A row that cannot be scored says why, and is not an error."""
    result = run("verify", write("rows.jsonl", without(stored[0], "injection")))

    assert result.exit_code == 0
    assert "line 1: not scored: it has no injection, and no task rows" in result.stdout
    assert "holds together" in result.stdout


def test_contradiction_is_a_finding(
    run: Callable[..., Result], write: Callable[..., Path], stored: list[dict[str, Any]]
) -> None:
    """A contradiction in a row that cannot be scored has exit code 1."""
    row = {**without(stored[1], "injection"), "reward": 1.0}
    result = run("verify", write("rows.jsonl", row))

    assert result.exit_code == 1
    assert "line 1: different" in result.stdout


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"injection": {}}'])
def test_lines_that_are_not_rollouts(
    run: Callable[..., Result],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
    line: bytes,
) -> None:
    """A line that is not a rollout is refused; the others are scored."""
    result = run("verify", write("rows.jsonl", stored[0], line))

    assert result.exit_code == 3
    assert "line 2: refused" in result.stdout
    assert "1 same, 1 refused" in result.stdout


def test_empty_file(run: Callable[..., Result], write: Callable[..., Path]) -> None:
    """A file without rows is refused."""
    assert run("verify", write("rows.jsonl")).exit_code == 3


def test_tasks_file_with_a_bad_line(
    run: Callable[..., Result], write: Callable[..., Path], stored: list[dict[str, Any]]
) -> None:
    """A task file is refused with the line that is wrong."""
    tasks = write("tasks.jsonl", builtin.rows()[0].to_json(), {})
    result = run("verify", write("rows.jsonl", stored[0]), "--tasks", tasks)

    assert result.exit_code == 3
    assert "tasks.jsonl, line 2: $" in result.stderr


def test_rollouts_of_other_rows(document: Callable[..., Any], data: Path) -> None:
    """Rollouts without an injection, of prompts in no task row: each row says so."""
    shown = document(
        *["verify", data / "rollouts.jsonl"],
        *["--tasks", data / "task_rows.jsonl", "--json"],
    )

    assert {"not scored": 5} == shown["counts"]
    assert all("no given task row" in row["reason"] for row in shown["rows"])


def test_a25_rows_that_are_not_scored_are_hinted_at(
    run: Callable[..., Result],
    document: Callable[..., Any],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
) -> None:
    """A25: the hint names ``--tasks``; with ``--strict`` the exit code is 1."""
    file = write("rows.jsonl", stored[1], without(stored[0], "injection"))
    hint = "1 rollout without an injection: name the file of the task rows with --tasks"

    assert (0, f"{hint}\n") == (
        run("verify", file).exit_code,
        run("verify", file).stderr,
    )
    assert hint == document("verify", file, "--json")["hint"]
    assert 1 == run("verify", file, "--strict").exit_code
    assert 0 == run("verify", write("whole.jsonl", stored[0]), "--strict").exit_code


def test_a12_masked_rows_are_no_finding(
    document: Callable[..., Any],
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
) -> None:
    """A12: an infrastructure failure is listed as masked, also with strict."""
    row = {**stored[0], "reward": 0.25, "mask_sample": True, "failure_kind": "timeout"}
    file = write("rows.jsonl", row)
    shown = document("verify", file, "--json", "--strict", "--effects")

    assert ({"masked": 1}, []) == (shown["counts"], shown["effects"])
    assert "timeout" == shown["rows"][0]["reason"]
