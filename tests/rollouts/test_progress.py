"""Progress is a bar on a terminal and a line now and then elsewhere."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest

from rich.console import Console

from ipistate.cli import run_progress as progress
from ipistate.kernel.values import JsonObject
from ipistate.rollouts.records import RunTally


ROW = JsonObject(
    {
        "_ng_task_index": 0,
        "_ng_rollout_index": 0,
        "reward": 0.5,
        "injection_followed": True,
        "response": {"usage": {"total_tokens": 1234}},
    }
)
COUNTS = "0 in flight, 1 failed, reward 0.500, injection followed 100.0%, 1,234 tokens"


def go(watch: progress.RunProgress, tally: RunTally) -> None:
    """Have one rollout finish and another one fail."""
    watch.began(None)  # type: ignore[arg-type]
    watch.began(None)  # type: ignore[arg-type]
    tally.add(ROW)
    watch.finished(ROW)
    watch.failed(JsonObject({"failure_kind": "rate_limited", "failure_reason": "no"}))
    watch.tick()


def test_a_line_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[Any]
) -> None:
    """Where no terminal is, lines on standard error have all the counts."""
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    tally = RunTally()
    with progress.run_progress(3, tally) as watch:
        go(watch, tally)
    told = capsys.readouterr()

    assert "" == told.out
    assert f"run: 1 of 3 done, {COUNTS}, " in told.err
    assert "s left" in told.err
    assert "a rollout failed (rate_limited) and is masked: no" in told.err


def test_no_lines_in_between(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[Any]
) -> None:
    """A line is not written more often than every few seconds."""
    tally = RunTally()
    with progress.run_progress(3, tally) as watch:
        for _ in range(100):
            watch.tick()

    assert "" == capsys.readouterr().err


@pytest.mark.parametrize("width", [80, 120])
def test_bars_on_a_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """On a terminal nothing is cut off, also on a narrow one."""
    written, tally = StringIO(), RunTally()
    console = Console(file=written, force_terminal=True, width=width)
    monkeypatch.setattr(progress, "stderr_console", lambda: console)
    with progress.run_progress(3, tally) as watch:
        go(watch, tally)

    assert COUNTS in written.getvalue()
    assert "1/3" in written.getvalue()
