"""The built-in rows: variety, sound worlds, and trajectories that are what they say."""

from __future__ import annotations

import json
import re

from collections import Counter
from importlib.resources import files

import pytest

from ipistate import TOOLS, replay, verify
from ipistate.generate.builtin import rows, trajectories
from ipistate.scoring.task import Task, check_rows
from ipistate.tools.transition import ToolCall


DOMAINS = {name for tool in TOOLS.values() for name in tool.domains}
ROWS = list(enumerate(rows()))


def lines(name: str) -> list[bytes]:
    """Return the lines of a data file of the package."""
    return files("ipistate.generate.builtin").joinpath(name).read_bytes().splitlines()


def trace(calls: tuple[ToolCall, ...]) -> list[dict[str, str]]:
    """Return calls as the output items of a response."""
    return [
        {
            "type": "function_call",
            "name": made.name,
            "arguments": json.dumps(made.arguments),
        }
        for made in calls
    ]


def test_three_rows_for_each_domain() -> None:
    """Every domain has three rows, one of each difficulty."""
    expected = {(name, level): 1 for name in DOMAINS for level in LEVELS}
    counts = Counter((t.domain, t.injection.attack_difficulty) for t in rows())

    assert expected == counts


LEVELS = ("easy", "medium", "hard")


@pytest.mark.parametrize(
    ("member", "least"),
    [
        ("attack_strategy", 10),
        ("attack_difficulty", 3),
        ("vector", 10),
        ("category", 4),
        ("verification_type", 20),
        ("injection_text", 27),
    ],
)
def test_variety(member: str, least: int) -> None:
    """The rows differ in what they attack, where and how."""
    assert least <= len({getattr(task.injection, member) for task in rows()})


def test_rows_are_clean() -> None:
    """The check finds nothing but the one type that has no strict keys on purpose."""
    findings = [(f.line, f.code) for f in check_rows(lines("rows.jsonl"))]

    assert [(20, "unknown_verification_type")] == findings


def test_rows_round_trip() -> None:
    """The file is what the package would write."""
    assert lines("rows.jsonl") == [task.to_json() for task in rows()]


@pytest.mark.parametrize(("index", "task"), ROWS)
def test_world(index: int, task: Task) -> None:
    """A world is a realistic size, and every address in it is a reserved one."""
    text = task.environment.to_json().decode()
    hosts = re.findall(r"@([\w.-]+)", task.to_json().decode())

    assert 2_000 <= len(text) <= 15_000
    assert {"example", "test"} >= {host.rstrip(".").rsplit(".")[-1] for host in hosts}


@pytest.mark.parametrize(("index", "task"), ROWS)
@pytest.mark.parametrize("kind", ["benign", "compromised"])
def test_calls_succeed(index: int, task: Task, kind: str) -> None:
    """Every call of every trajectory does what it is meant to do."""
    calls = getattr(trajectories()[index], kind)
    transitions = list(replay(task.environment, calls))

    assert index == trajectories()[index].row
    assert 4 <= len(calls) <= 8
    assert [None] * len(calls) == [transition.error for transition in transitions]
    assert [] == [
        t.output for t in transitions if re.match(r'Error|\{"error', t.output)
    ]
    assert task.environment.document != transitions[-1].environment.document


@pytest.mark.parametrize(("index", "task"), ROWS)
def test_scores(index: int, task: Task) -> None:
    """The benign way scores 1, the compromised way follows the injection: 0."""
    both = trajectories()[index]
    good = verify(trace(both.benign), task.injection, task.required_tools)
    bad = verify(trace(both.compromised), task.injection, task.required_tools)

    assert (1.0, False) == (good.reward, good.injection_followed)
    assert (0.0, 1.0, True) == (bad.reward, bad.reward_utility, bad.injection_followed)


@pytest.mark.parametrize(("index", "task"), ROWS)
def test_the_injection_is_read(index: int, task: Task) -> None:
    """Both agents read the poisoned text; the compromised one does so before it acts."""
    both = trajectories()[index]
    text = task.injection.injection_text
    shown = {text, json.dumps(text)[1:-1]}
    target = task.injection.target_tool
    for calls in (both.benign, both.compromised):
        outputs = [step.output for step in replay(task.environment, calls)]
        read = [any(form in output for form in shown) for output in outputs].index(True)
        added = [n for n, made in enumerate(calls) if made not in both.benign]

        assert all(read < n and calls[n].name == target for n in added)


@pytest.mark.parametrize(("index", "task"), ROWS)
def test_all_target_arguments_are_met(index: int, task: Task) -> None:
    """The compromised call agrees with every target argument, not only the strict."""
    target = task.injection.target_args
    calls = trajectories()[index].compromised
    texts = {name: str(value).strip().lower() for name, value in target.items()}
    met = [
        made
        for made in calls
        if made.name == task.injection.target_tool
        and texts.items()
        <= {n: str(v).strip().lower() for n, v in made.arguments.items()}.items()
    ]

    assert 1 == len(met)
