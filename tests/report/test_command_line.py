"""``ipistate report``: what it writes, refuses, skips, and never destroys."""

from __future__ import annotations

import gzip
import json
import stat

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from click.testing import CliRunner, Result

from ipistate.cli.app import cli
from ipistate.generate import builtin
from ipistate.report.chunk import (
    BATCH_LINES,
    Here,
    Processes,
    ReportLine,
    as_it_is,
    batches,
)


NO_TASKS = partial(partial, as_it_is)


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return a function that runs the verb in a directory of its own."""
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: int | str | Path, given: bytes | None = None) -> Result:
        return CliRunner().invoke(cli, ["report", *map(str, arguments)], input=given)

    return invoke


@pytest.fixture
def stored(
    tmp_path: Path, rows: list[dict[str, Any]], lines: Callable[..., list[bytes]]
) -> Path:
    """Return a file of six rollouts."""
    file = tmp_path / "rollouts.jsonl"
    file.write_bytes(b"\n".join(lines(rows[:6])) + b"\n")
    return file


def test_page_is_written(
    report: Callable[..., Result], stored: Path, tmp_path: Path
) -> None:
    """The page is there, nothing is on standard output, a note on standard error."""
    result = report(stored, "-o", "report.html", "--title", "Mine")

    assert (0, "") == (result.exit_code, result.stdout)
    assert "wrote report.html: 6 rollouts\n" == result.stderr
    assert "<title>Mine</title>" in (tmp_path / "report.html").read_text("utf-8")
    assert {"report.html", "rollouts.jsonl"} == {one.name for one in tmp_path.iterdir()}


def test_figures_are_one_document(report: Callable[..., Result], stored: Path) -> None:
    """With --json standard output is one JSON document with the figures."""
    result = report(stored, "--json")
    run = json.loads(result.stdout)["runs"][0]

    assert (0, "") == (result.exit_code, result.stderr)
    assert ("rollouts", 0, 6) == (run["name"], run["skipped"], run["total"]["rollouts"])
    assert 0.5 == run["total"]["resistance"]["rate"]
    assert {"easy", "medium"} & run["by"]["difficulty"].keys()


def test_processes_change_nothing(
    report: Callable[..., Result], stored: Path, tmp_path: Path
) -> None:
    """Two processes write the page that one writes."""
    for count in (1, 2):
        name = f"{count}.html"
        assert 0 == report(stored, "-o", name, "--processes", count).exit_code

    assert (tmp_path / "1.html").read_bytes() == (tmp_path / "2.html").read_bytes()


def test_chunks_come_in_order(
    rows: list[dict[str, Any]], lines: Callable[..., list[bytes]]
) -> None:
    """Batches that several processes work on come back in the file's order."""
    made = [ReportLine(n, text) for n, text in enumerate(lines(rows) * 4, 1)]
    with Processes(2, NO_TASKS) as worker:
        found = [one.line for chunk in worker.chunks(made) for one in chunk.entries]

    assert len(made) > BATCH_LINES
    assert [line.number for line in made] == found
    assert found == [
        one.line for chunk in Here(NO_TASKS).chunks(made) for one in chunk.entries
    ]


def test_batches_are_bounded() -> None:
    """A batch has at most so many lines, and a large line a batch of its own."""
    small, large = b"x", b"x" * (5 * 2**20)
    texts = [small] * 100 + [large] + [small]
    sizes = [len(batch) for batch in batches(map(ReportLine, range(102), texts))]

    assert [64, 36, 1, 1] == sizes


def test_standard_input(
    report: Callable[..., Result], stored: Path, tmp_path: Path
) -> None:
    """- reads standard input."""
    result = report("-", "-o", "r.html", given=stored.read_bytes())

    assert 0 == result.exit_code
    assert "standard input" not in (tmp_path / "r.html").read_text("utf-8")[:2000]


@pytest.mark.parametrize("cut", [100, 5000, -2])
def test_a_torn_line_is_refused(
    report: Callable[..., Result], stored: Path, tmp_path: Path, cut: int
) -> None:
    """A torn last line names its number and the way out; no page is written."""
    whole = stored.read_bytes().splitlines(keepends=True)
    stored.write_bytes(b"".join(whole[:3]) + whole[3][:cut])
    result = report(stored, "-o", "report.html")

    assert 3 == result.exit_code
    assert f"{stored}, line 4: " in result.stderr
    assert "--skip-broken" in result.stderr
    assert ["rollouts.jsonl"] == [one.name for one in tmp_path.iterdir()]


def test_broken_lines_are_skipped_and_told_of(
    report: Callable[..., Result], stored: Path, tmp_path: Path
) -> None:
    """--skip-broken counts what it leaves out, on the page, in the note and the JSON."""
    good = stored.read_bytes()
    stored.write_bytes(b"{}\n" + good + b"\xff\xfe\n[]\n")
    result = report(stored, "-o", "report.html", "--skip-broken", "--json")
    run = json.loads(result.stdout)["runs"][0]
    page = (tmp_path / "report.html").read_text("utf-8")

    assert 0 == result.exit_code
    assert (
        "6 rollouts; 3 lines left out, the first is rollouts, line 1" in result.stderr
    )
    assert (3, [1, 8, 9]) == (run["skipped"], [one["line"] for one in run["broken"]])
    assert "<li>line 8: " in page


def test_failures_count_as_masked(
    report: Callable[..., Result], stored: Path, tmp_path: Path
) -> None:
    """Attempts that failed count once for each rollout that has no row, as masked."""
    failed = {"mask_sample": True, "failure_kind": "endpoint_timeout", "response": {}}
    lines = [
        {**failed, "_ng_task_index": task, "_ng_rollout_index": 0, "attempt": attempt}
        for task, attempt in [(0, 0), (77, 0), (78, 0), (77, 1)]
    ]
    beside = tmp_path / "rollouts_failures.jsonl"
    beside.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    result = report(stored, "-o", "report.html", "--json")
    total = json.loads(result.stdout)["runs"][0]["total"]

    assert (8, {"endpoint_timeout": 2}) == (total["rollouts"], total["reasons"])
    assert (6, 2) == (total["resistance"]["n"], total["outcomes"]["masked"])


def test_torn_failures_are_refused(
    report: Callable[..., Result], stored: Path, tmp_path: Path
) -> None:
    """The file of failures is no less read than that of rows."""
    (tmp_path / "rollouts_failures.jsonl").write_text('{"mask_sample": tr')

    assert 3 == report(stored, "-o", "report.html").exit_code


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file has no rows"),
        (b"\n\n", "the file has no rows"),
        (b"PK\x03\x04 archive", "line 1: "),
        (b"a,b,c\n1,2,3\n", "line 1: "),
        (b'{"rows": []}\n', "no_trace"),
    ],
)
def test_foreign_files_are_refused(
    report: Callable[..., Result], tmp_path: Path, content: bytes, words: str
) -> None:
    """Empty and foreign files are refused with what is wrong, also line by line."""
    (tmp_path / "foreign").write_bytes(content)
    result = report("foreign", "-o", "report.html")
    skipping = report("foreign", "-o", "report.html", "--skip-broken")

    assert (3, 3) == (result.exit_code, skipping.exit_code)
    assert words in result.stderr
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("more", [(), ("--skip-broken",)], ids=["", "skip"])
@pytest.mark.parametrize("form", ["page", "gzip", "failures"])
def test_d10_a_file_of_another_form_is_one_error(
    report: Callable[..., Result],
    stored: Path,
    tmp_path: Path,
    form: str,
    more: tuple[str, ...],
) -> None:
    """D10: a page, packed rows or such failures are named once, and no line of them."""
    packed = gzip.compress(stored.read_bytes())
    given, named = stored, "gzip"
    if form == "page":
        assert 0 == report(stored, "-o", "page.html").exit_code
        given, named = tmp_path / "page.html", "HTML"
    elif form == "gzip":
        given.write_bytes(packed)
    else:
        (tmp_path / "rollouts_failures.jsonl").write_bytes(packed)
    result = report(given, "-o", "again.html", *more)

    assert (3, 1) == (result.exit_code, result.stderr.count("\n"))
    assert f"this is not JSON Lines but {named}" in result.stderr
    assert not (tmp_path / "again.html").exists()


def test_task_files_are_told_from_rollouts(
    report: Callable[..., Result], tmp_path: Path
) -> None:
    """Task rows have no trace, which is said."""
    (tmp_path / "tasks").write_bytes(builtin.rows()[0].to_json() + b"\n")

    assert "no_trace" in report("tasks", "-o", "r.html").stderr


def test_a_line_without_end_is_refused(
    report: Callable[..., Result], stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of one endless line is refused before it fills the memory."""
    monkeypatch.setattr("ipistate.cli.files.LONGEST_LINE", 1000)
    result = report(stored, "-o", "r.html")

    assert 3 == result.exit_code
    assert "line 1: longer than 1000 bytes" in result.stderr


def test_an_input_is_never_written_over(
    report: Callable[..., Result], stored: Path
) -> None:
    """The page may not take the name of a file that is read."""
    before = stored.read_bytes()
    result = report(stored, "-o", stored)

    assert (3, before) == (result.exit_code, stored.read_bytes())
    assert "this is an input" in result.stderr


def test_a_refusal_keeps_the_old_page(
    report: Callable[..., Result], stored: Path, tmp_path: Path
) -> None:
    """A page that was there stays as it is if the new one cannot be made."""
    (tmp_path / "report.html").write_text("old")
    stored.write_bytes(b"{\n")

    assert 3 == report(stored, "-o", "report.html").exit_code
    assert "old" == (tmp_path / "report.html").read_text()


def test_a_full_disk_is_said(
    report: Callable[..., Result], stored: Path, tmp_path: Path
) -> None:
    """A page that finds no room is an error; the device is still one afterwards."""
    (tmp_path / "full.html").symlink_to("/dev/full")
    result = report(stored, "-o", "full.html")

    assert 3 == result.exit_code
    assert "full.html: No space left on device" in result.stderr
    assert stat.S_ISCHR((tmp_path / "full.html").stat().st_mode)


def test_no_output_is_a_usage_error(
    report: Callable[..., Result], stored: Path
) -> None:
    """Without -o and --json there is nothing to do."""
    result = report(stored)

    assert 2 == result.exit_code
    assert "-o FILE" in result.stderr


def test_tasks_give_worlds(
    report: Callable[..., Result],
    tmp_path: Path,
    rows: list[dict[str, Any]],
    lines: Callable[..., list[bytes]],
) -> None:
    """Rollouts without environment get that of the task row with their prompt."""
    bare = [{k: v for k, v in row.items() if k != "environment"} for row in rows[:4]]
    (tmp_path / "bare.jsonl").write_bytes(b"\n".join(lines(bare)))
    tasks = b"\n".join(task.to_json() for task in builtin.rows())
    (tmp_path / "tasks.jsonl").write_bytes(tasks)
    without = json.loads(report("bare.jsonl", "--json").stdout)["runs"][0]["total"]
    for more in ((), ("--processes", "2")):
        given = report("bare.jsonl", "--json", "--tasks", "tasks.jsonl", *more)
        total = json.loads(given.stdout)["runs"][0]["total"]

        assert (0, 4) == (without["resistance"]["n"], without["without_world"])
        assert (4, 0) == (total["resistance"]["n"], total["without_world"])


def test_broken_tasks_are_refused(
    report: Callable[..., Result], stored: Path, tmp_path: Path
) -> None:
    """What is wrong with the task rows is said once, whatever reads the rollouts."""
    (tmp_path / "tasks.jsonl").write_bytes(b"{}\n")
    result = report(stored, "--json", "--tasks", "tasks.jsonl", "--processes", "2")

    assert 3 == result.exit_code
    assert "tasks.jsonl, line 1: " in result.stderr


def test_equal_names_are_told_apart(
    report: Callable[..., Result], stored: Path, tmp_path: Path
) -> None:
    """Runs are called by their files' stems, or whole names if these are equal."""
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "rollouts.jsonl"
    other.write_bytes(stored.read_bytes())
    result = report(stored, other, "--json")

    assert [str(stored), str(other)] == [
        run["name"] for run in json.loads(result.stdout)["runs"]
    ]


def test_d11_what_a_run_was_made_of_is_shown(
    report: Callable[..., Result], stored: Path, tmp_path: Path
) -> None:
    """D11: FILE.run.json, as ``ipistate run`` writes it, is on the page and in --json."""
    options = {"model": "m", "api": "chat", "temperature": 0.75, "url": "http://inside"}
    made = {"policy": "openai", "policy_options": options, "seed": 4, "max_steps": 51}
    (tmp_path / "rollouts.jsonl.run.json").write_text(json.dumps(made))
    result = report(stored, "-o", "report.html", "--json")
    page = (tmp_path / "report.html").read_text("utf-8")
    run = json.loads(result.stdout)["runs"][0]

    assert (made, 6) == (run["made"], run["amounts"]["turns"]["n"])
    for name, value in {"API": "chat", "Temperature": 0.75, "Most turns": 51}.items():
        assert f"<dt>{name}</dt><dd><bdi>{value}</bdi></dd>" in page
    assert "http://inside" not in page


@pytest.mark.parametrize(
    "content", [b"{", b"\xff", b"[" * 100_000, b"", b"{}" + b" " * 2**20]
)
def test_d11_a_broken_file_beside_the_rows_is_no_obstacle(
    report: Callable[..., Result], stored: Path, tmp_path: Path, content: bytes
) -> None:
    """D11: settings that cannot be read are named and left out; the page is written."""
    (tmp_path / "rollouts.jsonl.run.json").write_bytes(content)
    result = report(stored, "-o", "report.html")

    assert 0 == result.exit_code
    assert "rollouts.jsonl.run.json is left out: " in result.stderr
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize("content", [b"[]", b"3", b"{}"])
def test_d11_a_file_beside_the_rows_that_says_nothing(
    report: Callable[..., Result], stored: Path, tmp_path: Path, content: bytes
) -> None:
    """D11: a file of that name with other JSON is as good as none."""
    (tmp_path / "rollouts.jsonl.run.json").write_bytes(content)
    result = report(stored, "--json")

    assert (0, "") == (result.exit_code, result.stderr)
    assert {} == json.loads(result.stdout)["runs"][0]["made"]
