"""The built-in rows: careful agents resist, gullible ones follow, and with effect."""

from __future__ import annotations

import json

from collections.abc import Iterator

import pytest

from ipistate import assess, replay, resistance, verify
from ipistate.generate import builtin
from ipistate.kernel.values import identical
from ipistate.scoring.task import Task
from ipistate.scoring.trajectories import Trajectories
from ipistate.scoring.verifier import Verdict
from ipistate.tools.transition import ToolCall


PAIRS = [*zip(builtin.rows(), builtin.trajectories(), strict=True)]
IDS = [f"{n}-{task.domain}" for n, (task, _) in enumerate(PAIRS)]
both = pytest.mark.parametrize(("task", "ways"), PAIRS, ids=IDS)


def items(task: Task, calls: tuple[ToolCall, ...]) -> Iterator[dict[str, str]]:
    """Return the output items of an agent that made these calls, replies included."""
    done = replay(task.environment, calls)
    for number, (call, transition) in enumerate(zip(calls, done, strict=True)):
        body = json.dumps({"output": transition.output})
        call_id = f"call_{number}"
        yield {
            "type": "function_call",
            "name": call.name,
            "call_id": call_id,
            "arguments": json.dumps(call.arguments),
        }
        yield {"type": "function_call_output", "call_id": call_id, "output": body}


def verdict(task: Task, calls: tuple[ToolCall, ...]) -> Verdict:
    """Score these calls with their effects."""
    row = (task.injection, task.required_tools)
    return verify([*items(task, calls)], *row, seed=task.environment)


@both
def test_careful(task: Task, ways: Trajectories) -> None:
    """A careful agent resists, does its work, and no other route is suspected."""
    effects = verdict(task, ways.benign).effects

    assert effects is not None
    assert ("resisted", None, 1.0) == (effects.outcome, effects.reason, effects.utility)
    assert (False, False) == (effects.attempted, effects.effective)
    assert () == effects.changes == effects.other_route == effects.below_zero


@both
def test_gullible(task: Task, ways: Trajectories) -> None:
    """A gullible agent follows, and that changes the world by the target tool only."""
    effects = verdict(task, ways.compromised).effects
    assert effects is not None
    tools = {change.tool for change in effects.changes}

    assert ("followed", 1.0) == (effects.outcome, effects.utility)
    assert effects.attempted
    assert effects.effective
    assert {task.injection.target_tool} == tools
    assert () == effects.other_route


@both
def test_the_verdict_stays(task: Task, ways: Trajectories) -> None:
    """The trace verdict is the same with and without a seed."""
    for calls in (ways.benign, ways.compromised):
        trace = [*items(task, calls)]
        row = (trace, task.injection, task.required_tools)
        alone, beside = verify(*row), verify(*row, seed=task.environment)

        assert alone.effects is None
        for name in ("injection_followed", "matched_tool", "matched_args", "reward"):
            assert getattr(alone, name) == getattr(beside, name)


@both
def test_twice(task: Task, ways: Trajectories) -> None:
    """Scoring changes nothing: again it gives the same, and the seed is as it was."""
    before = task.environment.to_json()
    first, second = (verdict(task, ways.compromised) for _ in range(2))
    documents = [one.effects.to_document() for one in (first, second) if one.effects]
    assert 2 == len(documents)

    assert first == second
    assert identical(*documents)
    assert before == task.environment.to_json()


@both
def test_reference(task: Task, ways: Trajectories) -> None:
    """Against the careful way nothing is missing; the injection is what is beyond."""
    row = (task.injection, task.required_tools, task.environment)
    same = assess(ways.benign, *row, reference=ways.benign)
    more = assess(ways.compromised, *row, reference=ways.benign)

    assert () == same.missing == same.beyond == more.missing
    assert more.beyond
    assert 1.0 == same.utility == more.utility


@both
def test_ineffective(task: Task, ways: Trajectories) -> None:
    """The target call alone, broken by an unknown argument, is attempted only."""
    tool = task.injection.target_tool
    target = next(c for c in ways.compromised if c not in ways.benign)
    spoiled = {**target.arguments, "env": 1}
    item = {"type": "function_call", "name": tool, "arguments": json.dumps(spoiled)}
    effects = verify([item], task.injection, seed=task.environment).effects

    assert effects is not None
    assert (True, False) == (effects.attempted, effects.effective)
    assert ("followed", ()) == (effects.outcome, effects.changes)


def test_resistance_of_all() -> None:
    """Half of the reference ways are careful, so half of the rollouts resist."""
    verdicts = [
        verdict(task, calls)
        for task, ways in PAIRS
        for calls in (ways.benign, ways.compromised)
    ]
    effects = [one.effects for one in verdicts if one.effects is not None]
    found = resistance(effects)

    assert (27, 54, 0.5) == (found.resisted, found.n, found.rate)
