"""``ipistate demo``, inside this process; only its servers are others."""

from __future__ import annotations

import json

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import attrs
import pytest

from ipistate.cli import demo
from ipistate.demo import run as run_demo
from ipistate.demo.outcome import CollectionChange
from ipistate.demo.play import Recording
from ipistate.demo.report import DemoReport
from ipistate.demo.workplace import Workplace
from ipistate.generate import builtin
from ipistate.kernel.values import JsonObject
from ipistate.rollouts.connection import ServerError


if TYPE_CHECKING:
    from click.testing import Result


def test_tables_and_exit_code(run: Callable[..., Result], tmp_path: Path) -> None:
    """The worlds, the table by domain and the totals are on standard output."""
    file = tmp_path / "demo.json"
    result = run("demo", "--rollouts", "6", "--json", file)

    assert 0 == result.exit_code
    assert "changed against its seed" in result.stdout
    assert "6 of 6 rollouts identical, 0 lost" in result.stdout
    assert json.loads(file.read_bytes())["ok"]
    assert "demo: kill -9\n" in result.stderr


def test_json_on_standard_output(run: Callable[..., Result]) -> None:
    """With --json - standard output is the report alone."""
    report = json.loads(run("demo", "--rollouts", "2", "--json", "-").stdout)

    assert (2, 2) == (report["total"]["rollouts"], report["total"]["identical"])


@pytest.fixture
def report(run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> DemoReport:
    """Return a real report, for tests that change it."""
    kept: list[DemoReport] = []
    real = run_demo

    async def spied(*given: Any) -> DemoReport:
        kept.append(await real(*given))
        return kept[0]

    monkeypatch.setattr(demo, "run", spied)
    run("demo", "--rollouts", "1")
    return kept[0]


def test_difference_is_shown_and_a_finding(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, report: DemoReport
) -> None:
    """A difference is named after the table, with exit code 1."""
    outcome = attrs.evolve(report.outcomes[0], difference="reply 2 differs")

    async def different(*_: object) -> DemoReport:
        return attrs.evolve(report, outcomes=(outcome,))

    monkeypatch.setattr(demo, "run", different)
    result = run("demo", "--rollouts", "1")

    assert 1 == result.exit_code
    assert f"{outcome.rollout_id}: reply 2 differs" in result.stdout


def test_many_changed_worlds_are_not_all_listed(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, report: DemoReport
) -> None:
    """Fifty worlds are listed and the others counted."""
    change = CollectionChange(collection="messages", added=("1",))
    outcome = attrs.evolve(report.outcomes[0], cut=1, changes=(change,))

    async def changed(*_: object) -> DemoReport:
        return attrs.evolve(report, outcomes=(outcome,) * 52)

    monkeypatch.setattr(demo, "run", changed)
    result = run("demo", "--rollouts", "1")

    assert 50 == result.stdout.count("messages +1")
    assert "2 more exported worlds are changed" in result.stdout


def test_demo_that_cannot_end(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that refuses a control call ends the demo with one line."""

    async def fails(*_: object) -> NoReturn:
        raise ServerError("server_refused", "POST /commit answered 422")

    monkeypatch.setattr(demo, "run", fails)
    result = run("demo")

    assert (1, "") == (result.exit_code, result.stdout)
    assert "POST /commit answered 422" in result.stderr


def test_tasks_with_a_bad_line(
    run: Callable[..., Result], write: Callable[..., Path]
) -> None:
    """A task file is refused with the line that is wrong, before anything starts."""
    tasks = write("tasks.jsonl", builtin.rows()[0].to_json(), b"{")
    result = run("demo", "--tasks", tasks)

    assert (3, "") == (result.exit_code, result.stdout)
    assert "tasks.jsonl, line 2" in result.stderr


def test_directory_to_keep_that_cannot_be_made(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    """A directory that cannot be made is refused."""
    (tmp_path / "file").touch()

    assert 3 == run("demo", "--keep", tmp_path / "file" / "below").exit_code


def test_results_of_the_finished_rollouts(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    """The rollouts are in the file, and nothing else says so but a note."""
    file = tmp_path / "rollouts.jsonl"
    result = run("demo", "--rollouts", "2", "--json", "-", "--results", file)

    assert 0 == result.exit_code
    assert f"wrote {file}\n" in result.stderr
    assert 0 == run("replay", file).exit_code
    assert run("replay", file).stdout.startswith("2 rollouts: 2 same; ")


def test_rounds_have_no_results(run: Callable[..., Result], tmp_path: Path) -> None:
    """Rounds of kills never finish a rollout, so there is nothing to write."""
    result = run("demo", "--rounds", "2", "--results", tmp_path / "rollouts.jsonl")

    assert (2, "") == (result.exit_code, result.stdout)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--json", "--results"])
@pytest.mark.parametrize("name", ["none/demo.json", "", "file/demo.json", "x" * 5000])
def test_report_file_is_checked_first(
    run: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    option: str,
    name: str,
) -> None:
    """Where no file can be written nothing is played, and nothing is left behind."""
    (tmp_path / "file").write_text("kept")
    monkeypatch.setattr(demo, "_ended", None)
    result = run("demo", option, tmp_path / name)

    assert 3 == result.exit_code
    assert result.stderr.startswith(f"Error: {tmp_path / name}: ")
    assert ["file"] == [file.name for file in tmp_path.iterdir()]


@pytest.mark.parametrize("option", ["--json", "--results"])
def test_report_file_that_cannot_be_written(
    run: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
    report: DemoReport,
    option: str,
) -> None:
    """A report that cannot be written is refused after the table was shown."""

    async def same(_: object, place: Workplace, __: object) -> DemoReport:
        place.keep_rows([Recording(row=JsonObject())])
        return report

    monkeypatch.setattr(demo, "run", same)
    result = run("demo", "--rollouts", "1", option, "/dev/full")

    assert 3 == result.exit_code
    assert "1 of 1 rollouts identical" in result.stdout
