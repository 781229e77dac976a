"""``ipistate tasks``."""

from __future__ import annotations

import json

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipistate.generate import builtin


if TYPE_CHECKING:
    from click.testing import Result


def test_check_of_good_rows(
    run: Callable[..., Result], write: Callable[..., Path]
) -> None:
    """Rows without errors end with exit code 0 and a summary."""
    file = write("tasks.jsonl", *[task.to_json() for task in builtin.rows()[:2]])
    result = run("tasks", "check", file)

    assert (0, "2 rows, 0 errors, 0 warnings\n") == (result.exit_code, result.stdout)


def test_check_names_line_path_and_code(
    run: Callable[..., Result], write: Callable[..., Path]
) -> None:
    """A finding names the file's line, the path and the code."""
    row = json.loads(builtin.rows()[0].to_json())
    del row["injection"]["goal"]
    file = write("tasks.jsonl", builtin.rows()[1].to_json(), row)
    result = run("tasks", "check", file)

    assert result.exit_code == 1
    assert f"{file}:2: error: $.injection.goal" in result.stdout
    assert "[missing_member]" in result.stdout


def test_check_in_json(
    document: Callable[..., Any],
    write: Callable[..., Path],
) -> None:
    """With --json the findings are members of one document."""
    shown = document("tasks", "check", write("t.jsonl", b"{"), "--json", code=1)

    assert (1, 1, 0) == (shown["rows"], shown["errors"], shown["warnings"])
    assert shown["findings"][0]["line"] == 1


def test_check_of_an_empty_file(
    run: Callable[..., Result], write: Callable[..., Path]
) -> None:
    """A file without rows is a finding, not a success."""
    assert run("tasks", "check", write("empty.jsonl")).exit_code == 1


def test_check_of_a_missing_file(run: Callable[..., Result], tmp_path: Path) -> None:
    """A file that is not there is refused."""
    assert run("tasks", "check", tmp_path / "none").exit_code == 3


def test_list_has_every_builtin_row(
    run: Callable[..., Result],
    document: Callable[..., Any],
) -> None:
    """The list names each built-in row once."""
    names = [row["name"] for row in document("tasks", "list", "--json")]

    assert len(builtin.rows()) == len(set(names))
    assert all(name in run("tasks", "list").stdout for name in names)


def test_show_describes_the_attack(run: Callable[..., Result]) -> None:
    """A row is shown with its request, its injection and both agents' calls."""
    shown = run("tasks", "show", "hr-1").stdout
    hr = next(task for task in builtin.rows() if task.domain == "hr")

    assert hr.injection.injection_text.split("\n")[0] in shown
    assert "A careful agent calls" in shown
    assert hr.injection.target_tool in shown.partition("A gullible agent")[2]


def test_show_in_json_is_the_row(run: Callable[..., Result]) -> None:
    """With --json the output is a line of a task file."""
    shown = run("tasks", "show", "hr-1", "--json").stdout_bytes

    assert shown.rstrip() in [task.to_json() for task in builtin.rows()]


def test_show_of_an_unknown_row(run: Callable[..., Result]) -> None:
    """A row that does not exist is refused."""
    result = run("tasks", "show", "hr-99")

    assert (3, "") == (result.exit_code, result.stdout)
