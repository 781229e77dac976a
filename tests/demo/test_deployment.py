"""A whole deployment dies, each server a process of its own, and nothing differs."""

from __future__ import annotations

import json

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs
import pytest

from click.testing import CliRunner, Result

from ipistate.cli.app import cli
from ipistate.demo import RealModelReport
from ipistate.demo.deployed import DeployedResult
from ipistate.demo.deployment_report import (
    DeploymentReport,
    DeploymentRoundsReport,
    outcome_of,
)


RESULT = DeployedResult(text=b"{}", reward=1.0, output=())


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[Result, Path]]:
    """Run the demo of a deployment, with a report."""

    def called(*options: str) -> tuple[Result, Path]:
        report = tmp_path / "report.json"
        given = ["demo", "--deployment", "--json", str(report), *options]
        return CliRunner().invoke(cli, given), report

    return called


@pytest.mark.once
@pytest.mark.parametrize("topology", ["native", "relay"])
def test_two_crashes_of_everything(
    run: Callable[..., tuple[Result, Path]], topology: str
) -> None:
    """All in flight are kept twice over, and end as without any crash."""
    result, file = run("--topology", topology, "--rollouts", "24")
    found = json.loads(file.read_bytes())

    assert (0, True) == (result.exit_code, found["ok"]), (result.output, found)
    assert found["in_flight"] == found["committed"][0] == found["restored"][1] > 0
    assert found["calls"] == found["calls_uninterrupted"] + found["undelivered"]
    assert f"{topology}: {found['in_flight']} episodes in flight" in result.stdout


@pytest.mark.once
def test_rounds_of_kills(run: Callable[..., tuple[Result, Path]]) -> None:
    """Whoever dies in the middle of whatever, each rollout has its one result."""
    result, file = run("--rounds", "5", "--rollouts", "16", "--seed", "4")
    found = json.loads(file.read_bytes())

    assert (0, True) == (result.exit_code, found["ok"]), (result.output, found)
    assert ["prepare", "commit", "resume", "restore", "reopen"] == [
        one["operation"] for one in found["rounds"]
    ]
    assert any(one["restored"] for one in found["rounds"])


@pytest.mark.parametrize(
    "option", ["--full", "--results=x", "--sessions=3", "--tasks=x"]
)
def test_options_of_the_other_demos(
    run: Callable[..., tuple[Result, Path]], option: str
) -> None:
    """They are refused before anything starts."""
    result, file = run(option)

    assert (2, False) == (result.exit_code, file.exists())
    assert "--deployment plays the built-in rows" in result.stderr


@pytest.mark.parametrize(
    "options", [["--rounds", "2"], ["--topology", "relay"], []], ids=str
)
def test_a_real_model_needs_its_engine(
    run: Callable[..., tuple[Result, Path]], tmp_path: Path, options: list[str]
) -> None:
    """And is there for one crash of a native deployment; nothing starts otherwise."""
    weights = tmp_path / "weights.gguf"
    weights.touch()
    if not options and find_spec("xllamacpp") is not None:
        pytest.skip("there is an engine here")
    result, file = run("--weights", str(weights), *options)

    assert (2, False) == (result.exit_code, file.exists())
    assert "--weights" in result.stderr


REAL = RealModelReport(
    rollouts=4,
    in_flight=3,
    cut=1,
    cut_failed=0,
    cut_skipped=1,
    tokens_saved=9,
    restored=3,
    lost=0,
    doubled=0,
    captured=8,
    not_captured=0,
    tokens=99,
    left_over={},
    seconds=1.0,
)


@pytest.mark.parametrize(
    "changes",
    [
        {"lost": 1},
        {"doubled": 1},
        {"not_captured": 1},
        {"cut_failed": 1},
        {"restored": 2},
        {"left_over": {"agent.sessions": 1}},
    ],
    ids=str,
)
def test_when_a_real_model_s_report_is_good(changes: dict[str, Any]) -> None:
    """Anything wrong makes it bad; it is written as data."""
    assert REAL.ok
    assert not attrs.evolve(REAL, **changes).ok
    assert (True, 9) == (REAL.to_document()["ok"], REAL.to_document()["tokens_saved"])


def test_what_an_outcome_says() -> None:
    """One right result is right; none, two or another one are not."""
    other = DeployedResult(text=b"[]", reward=1.0, output=())
    lost, doubled, wrong, right = (
        outcome_of("r", found, RESULT, ())
        for found in ([], [RESULT, RESULT], [other], [RESULT])
    )

    assert (0, False) == (lost.results, lost.is_identical)
    assert (2, True) == (doubled.results, doubled.is_identical)
    assert not wrong.is_identical
    assert (1, True, True) == (
        right.results,
        right.is_identical,
        right.begins_as_recorded,
    )


def test_a_trajectory_that_does_not_begin_as_recorded() -> None:
    """What the checkpoint has of it must come first."""
    outcome = outcome_of("r", [RESULT], RESULT, ("an item",))

    assert (True, False) == (outcome.at_checkpoint, outcome.begins_as_recorded)


REPORT = DeploymentReport(
    topology="native",
    outcomes=(outcome_of("r", [RESULT], RESULT, ()),),
    in_flight=1,
    restarts=0,
    committed=(1, 1),
    restored=(1, 1),
    calls=4,
    calls_uninterrupted=3,
    undelivered=1,
    left_over={},
    milliseconds={},
    seconds=1.0,
)

WRONG: dict[str, dict[str, Any]] = {
    "a call in vain": {"calls": 5},
    "one restart": {"restarts": 1},
    "one not committed": {"committed": (1, 0)},
    "one not restored": {"restored": (0, 1)},
    "something left over": {"left_over": {"agent.sessions": 1}},
    "one lost": {"outcomes": (outcome_of("r", [], RESULT, ()),)},
    "one doubled": {"outcomes": (outcome_of("r", [RESULT] * 2, RESULT, ()),)},
    "one different": {"outcomes": (outcome_of("r", [RESULT], None, ()),)},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG)
def test_when_a_report_is_good(changes: dict[str, Any]) -> None:
    """Anything wrong makes it bad."""
    assert REPORT.ok
    assert not attrs.evolve(REPORT, **changes).ok


def test_when_rounds_are_good() -> None:
    """Anything lost, doubled, different or left over makes them bad."""
    rounds = DeploymentRoundsReport(
        topology="relay",
        seed=1,
        rounds=(),
        outcomes=REPORT.outcomes,
        calls=3,
        left_over={},
        seconds=1.0,
    )

    assert rounds.ok
    assert not attrs.evolve(rounds, left_over={"ipi.sessions": 1}).ok
    lost = (outcome_of("r", [], RESULT, ()),)
    assert not attrs.evolve(rounds, outcomes=lost).ok
