"""The full demo: two deaths, a checkpoint in between, retired rollouts."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from ipistate.demo.plan import plan
from ipistate.demo.report import FullReport
from ipistate.demo.scripts import builtin_scripts
from ipistate.demo.story import run_full
from ipistate.demo.workplace import Workplace
from ipistate.kernel.codec import encode
from ipistate.kernel.values import freeze


pytestmark = pytest.mark.once


DEMO = [sys.executable, "-m", "ipistate", "demo", "--full"]


class Silent:
    """Hears of everything and says nothing."""

    def stage(self, name: str) -> None:
        """Do nothing."""

    def advance(self) -> None:
        """Do nothing."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """Return where the demo was played."""
    return Workplace(tmp_path_factory.mktemp("full"))


@pytest.fixture(scope="module")
def report(place: Workplace) -> FullReport:
    """Play sixteen rollouts through both crashes."""
    return asyncio.run(run_full(plan(builtin_scripts(), 16), place, Silent()))


def test_nothing_is_lost_doubled_or_different(report: FullReport) -> None:
    """Every rollout ends as without interruption, also those that started over."""
    assert report.ok
    assert (16, 16, 12, 12) == (
        report.total.rollouts,
        report.total.identical,
        report.total.at_checkpoint,
        report.total.continued,
    )
    assert ((), (), 0) == (report.lost, report.doubled, report.sessions_left)


def test_both_servers_were_killed(report: FullReport) -> None:
    """Each checkpoint's server died of SIGKILL, and another process restored it."""
    assert [-signal.SIGKILL] * 2 == [crash.status for crash in report.crashes]
    assert 3 == len({report.fresh_pid, *(crash.pid for crash in report.crashes)})
    assert [12, 12] == [crash.sessions for crash in report.crashes]


def test_what_nobody_has_continued_is_carried_forward(report: FullReport) -> None:
    """The second checkpoint has the first one's sessions, byte for byte, as attempt 1."""
    one, other = report.crashes
    first = sorted(one.committed)

    assert 12 == report.carried == len(first)
    assert [f"{key}-a1" for key in first] == sorted(other.committed)
    assert [f"{key}-a1" for key in first] == sorted(one.restored)
    assert [f"{key}-a2" for key in first] == sorted(other.restored)


def test_retired_attempts_are_refused_until_they_are_forgotten(
    report: FullReport,
) -> None:
    """Four late calls of each are refused, its close is not, its state is freed."""
    retired = report.retired

    assert (1, 1, 1) == (len(retired.rollouts), retired.sessions_freed, retired.closed)
    assert (4, 0, 0) == (retired.refused, retired.admitted, retired.marks_left)


def test_document_is_json(report: FullReport) -> None:
    """The report can be written as JSON and says what the table says."""
    document = json.loads(encode(freeze(report.to_document())))

    assert (True, 16) == (document["ok"], document["total"]["identical"])
    assert ["step-1", "step-2"] == [
        stage["manifest"]["checkpoint_id"] for stage in document["checkpoints"]
    ]


def test_kept_rows_are_those_of_the_crashed_run(
    place: Workplace, report: FullReport
) -> None:
    """The rows that are kept have one verdict for each rollout."""
    rows = (place.root / "rollouts.jsonl").read_bytes().splitlines()

    assert len(report.outcomes) == len(rows)
    assert all("reward" in json.loads(row) for row in rows)


def _worse(report: FullReport, **changed: Any) -> FullReport:
    return attrs.evolve(report, **changed)


def _second(report: FullReport, **changed: Any) -> FullReport:
    first, second = report.crashes
    return attrs.evolve(report, crashes=(first, attrs.evolve(second, **changed)))


def _retired(report: FullReport, **changed: Any) -> FullReport:
    return attrs.evolve(report, retired=attrs.evolve(report.retired, **changed))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda r: _worse(r, carried=11),
        lambda r: _worse(r, sessions_left=1),
        lambda r: _worse(
            r, outcomes=(attrs.evolve(r.outcomes[0], difference="x"), *r.outcomes[1:])
        ),
        lambda r: _second(r, committed=r.crashes[1].committed[1:]),
        lambda r: _second(r, restored=r.crashes[1].restored[1:]),
        lambda r: _second(
            r, restored=(*r.crashes[1].restored, r.crashes[1].restored[0])
        ),
        lambda r: _second(r, sessions=13),
        lambda r: _retired(r, sessions_freed=0),
        lambda r: _retired(r, admitted=1),
        lambda r: _retired(r, closed=0),
        lambda r: _retired(r, marks_left=1),
    ],
    ids=[
        "an export differs",
        "a session is left",
        "a reply differs",
        "not committed",
        "not restored",
        "restored twice",
        "held twice",
        "not freed",
        "a late call got through",
        "a close was refused",
        "not forgotten",
    ],
)
def test_whatever_goes_wrong_is_not_ok(
    report: FullReport, spoil: Callable[..., FullReport]
) -> None:
    """Each single loss, double or difference is seen."""
    assert not spoil(report).ok


def test_command_line(tmp_path: Path) -> None:
    """The tables and the exit code; the report as JSON beside them."""
    file = tmp_path / "full.json"
    command: list[str | Path] = [*DEMO, "--sessions", "5", "--json", file]
    result = subprocess.run(command, capture_output=True, check=False, timeout=120)

    assert 0 == result.returncode, result.stderr
    assert b"5 of 5 second exports equal the first; 1 rollout retired" in result.stdout
    assert b"0 lost, 0 doubled, 0 sessions left" in result.stdout
    assert 5 == json.loads(file.read_bytes())["total"]["at_checkpoint"]


def test_two_demos_at_once_are_refused() -> None:
    """--full and --rounds exclude each other."""
    command: list[str | Path] = [*DEMO, "--rounds", "3"]
    result = subprocess.run(command, capture_output=True, check=False, timeout=60)

    assert 2 == result.returncode
    assert b"choose one" in result.stderr
