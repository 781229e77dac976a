"""Servers that are killed at random moments of a commit or a restore.

``HYPOTHESIS_PROFILE=deep`` plays fifty rounds. The moments are new ones with each seed of
the test run.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from ipistate.demo.kills import run_rounds
from ipistate.demo.plan import DemoRollout, plan, plan_for
from ipistate.demo.report import KillRound, RoundsReport, doubled, lost
from ipistate.demo.scripts import builtin_scripts
from ipistate.demo.workplace import Workplace
from ipistate.kernel.codec import encode
from ipistate.kernel.values import freeze


pytestmark = pytest.mark.once


ROUNDS, ROLLOUTS = {"deep": (50, 80)}.get(
    os.environ.get("HYPOTHESIS_PROFILE", ""), (2, 8)
)

GOOD = KillRound(
    number=1,
    operation="commit",
    moment=0.01,
    answered=False,
    newest="first",
    rollouts=6,
    lost=(),
    doubled=(),
    different=(),
    sessions_left=0,
)


class Silent:
    """Hears of everything and says nothing."""

    def stage(self, name: str) -> None:
        """Do nothing."""

    def advance(self) -> None:
        """Do nothing."""


def test_kills_at_random_moments(run_async: Callable[..., Any], tmp_path: Path) -> None:
    """Nothing lost, nothing doubled, every reply as in the uninterrupted run."""
    seed = random.randrange(2**32)
    rollouts = plan(builtin_scripts(), ROLLOUTS)
    report = run_async(
        run_rounds(rollouts, Workplace(tmp_path), Silent(), count=ROUNDS, seed=seed)
    )

    assert [] == [one for one in report.rounds if not one.ok], seed
    assert ROUNDS == len(report.rounds) == sum(line.rounds for line in report.lines)
    assert {"commit", "restore"} == {one.operation for one in report.rounds}


def test_command_line(tmp_path: Path) -> None:
    """The table by operation and outcome, and the report as JSON."""
    file = tmp_path / "rounds.json"
    command = [sys.executable, "-m", "ipistate", "demo", "--rounds", "1"]
    command += ["--sessions", "3", "--seed", "7", "--json", str(file)]
    result = subprocess.run(command, capture_output=True, check=False, timeout=120)

    assert 0 == result.returncode, result.stderr
    assert b"1 round with seed 7: 0 lost, 0 doubled, 0 different" in result.stdout
    assert (True, 7) == (
        json.loads(file.read_bytes())["ok"],
        json.loads(file.read_bytes())["seed"],
    )


@pytest.mark.parametrize(
    "spoiled",
    [
        {"lost": ("r",)},
        {"doubled": ("r-a1",)},
        {"different": ("r: reply 2 differs",)},
        {"sessions_left": 1},
        {"answered": True},
    ],
    ids=["lost", "doubled", "different", "left", "answered, but not there"],
)
def test_a_round_that_went_wrong_is_not_ok(spoiled: dict[str, Any]) -> None:
    """Each single loss, double or difference is seen, also among many rounds."""
    bad = attrs.evolve(GOOD, **spoiled)
    report = RoundsReport(rounds=(GOOD, bad), seed=1, seconds=1.0)

    assert (True, False, False) == (GOOD.ok, bad.ok, report.ok)


def test_what_is_lost_and_what_is_doubled(rollouts: tuple[DemoRollout, ...]) -> None:
    """A key that is missing is lost; one that is there twice, or a session more."""
    played = rollouts[:3]
    keys = [one.episode.next_attempt.capture_key for one in played]

    assert ((), ()) == (lost(played, keys), doubled(keys, 3))
    assert (played[1].episode.rollout_id,) == lost(played, [keys[0], keys[2]])
    assert (keys[0],) == doubled([*keys, keys[0]], 4)
    assert 1 == len(doubled(keys, 4))


def test_rounds_are_counted_by_how_they_ended() -> None:
    """One line for each operation, answer and checkpoint; moments as a range."""
    other = attrs.evolve(GOOD, operation="restore", newest="second", lost=("r",))
    later = attrs.evolve(GOOD, moment=0.03)
    report = RoundsReport(rounds=(later, other, GOOD), seed=1, seconds=1.0)
    lines = report.lines

    assert [("commit", 2, 0), ("restore", 1, 1)] == [
        (line.operation, line.rounds, line.lost) for line in lines
    ]
    assert (0.01, 0.03, 12) == (lines[0].earliest, lines[0].latest, lines[0].rollouts)
    assert 3 == len(json.loads(encode(freeze(report.to_document())))["rounds"])


@pytest.mark.parametrize("sessions", [1, 2, 5, 60])
def test_a_plan_for_so_many_sessions(sessions: int) -> None:
    """As many rollouts are live at the checkpoint as were asked for."""
    rollouts = plan_for(builtin_scripts(), sessions)

    assert sessions == sum(one.cut is not None for one in rollouts)
