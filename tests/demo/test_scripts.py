"""Scripted agents: the careful one is worth 1, the gullible one 0."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from ipistate import Task, call_tool
from ipistate.demo.plan import plan
from ipistate.demo.scripts import (
    GENERATED,
    DemoScript,
    builtin_scripts,
    derive,
    generated_scripts,
    prompt,
)
from ipistate.generate import builtin
from ipistate.kernel import render
from ipistate.kernel.values import JsonObject
from ipistate.policies.scripted import Temper
from ipistate.scoring.verifier import verify


def reward(script: DemoScript, agent: Temper) -> float:
    """Score the trace of an agent's calls."""
    items = [
        {
            "type": "function_call",
            "name": call.name,
            "arguments": render(call.arguments),
        }
        for call in script.calls(agent)
    ]
    task = script.task
    return verify(items, task.injection, task.required_tools).reward


def test_builtin_scripts_have_names_of_their_domain() -> None:
    """There is a script for each built-in row, named by domain and number."""
    names = [script.name for script in builtin_scripts()]

    assert len(builtin.rows()) == len(set(names))
    assert {"hr-1", "hr-2", "hr-3"} <= set(names)


def test_generated_scripts_are_always_the_same() -> None:
    """What the demo plays is generated, ten rows of each domain, from one seed."""
    scripts = generated_scripts()
    names = [script.name for script in scripts]

    assert GENERATED == len(set(names)) == 90
    assert {"hr-1", "hr-10", "real_estate-10"} <= set(names)
    assert scripts == generated_scripts()
    assert scripts[:20] == generated_scripts(20)


def test_generated_scripts_can_be_cut() -> None:
    """Each agent earns its reward, in at least two calls."""
    for script in generated_scripts():
        assert (1.0, 0.0) == (reward(script, "careful"), reward(script, "gullible"))
        assert len(script.careful) >= 2


def test_demo_rows_are_played_by_both_agents() -> None:
    """The demo's 80 rollouts are 40 generated rows, each played by both agents."""
    played = plan(generated_scripts(), 80)

    assert 40 == len({rollout.row for rollout in played})
    assert 80 == len({(rollout.row, rollout.agent) for rollout in played})


@pytest.mark.parametrize("task", builtin.rows())
def test_derived_scripts_of_builtin_rows(task: Task) -> None:
    """A derived script scores 1 and 0, and is long enough to be cut."""
    script = derive("row", task)

    assert (1.0, 0.0) == (reward(script, "careful"), reward(script, "gullible"))
    assert len(script.careful) >= 3


def test_derived_scripts_of_a_file(data: Path) -> None:
    """Rows of the published form play: rewards 1 and 0, at least four calls."""
    file = data / "task_rows.jsonl"
    tasks = [Task.from_json(line) for line in file.read_bytes().splitlines()]
    scripts = [derive(f"row-{number}", task) for number, task in enumerate(tasks)]

    assert len(scripts) == 5
    for script in scripts:
        assert (1.0, 0.0) == (reward(script, "careful"), reward(script, "gullible"))
        assert len(script.careful) >= 4


@pytest.mark.parametrize("task", builtin.rows())
def test_required_calls_work(task: Task) -> None:
    """The arguments of required reading calls are found in the world."""
    world = task.environment
    for call in derive("row", task).careful:
        done = call_tool(world, call.name, call.arguments)
        world = done.environment

        assert done.error is None


def test_gullible_is_careful_and_the_target() -> None:
    """The agents differ by exactly the call that the injection asks for."""
    task = builtin.rows()[0]
    script = derive("row", task)
    extra = [call for call in script.gullible if call not in script.careful]

    assert [task.injection.target_tool] == [call.name for call in extra]


def test_row_without_tools_uses_its_domain() -> None:
    """A row that offers no tools is played with those of its domain."""
    task = builtin.rows()[0]
    params = {n: v for n, v in task.responses_create_params.items() if n != "tools"}
    bare = attrs.evolve(task, responses_create_params=JsonObject(params))

    assert len(derive("row", bare).careful) >= 3


def test_row_of_an_unknown_domain_still_has_its_target() -> None:
    """Where nothing can be derived, the gullible agent makes the target call alone."""
    task = attrs.evolve(
        builtin.rows()[0],
        responses_create_params=JsonObject({"input": "Hello"}),
        required_tools=("no_such_tool",),
        domain="space",
    )
    script = derive("row", task)

    assert ["no_such_tool"] == [call.name for call in script.careful]
    assert "Hello" == prompt(task)
    assert task.injection.target_args == script.gullible[-1].arguments


def test_careful_agent_avoids_the_bait() -> None:
    """A required tool that is also the target is called with other arguments."""
    task = next(task for task in builtin.rows() if task.domain == "healthcare")
    injection = attrs.evolve(
        task.injection,
        target_tool="get_patient_record",
        target_args=JsonObject({"patient_id": "P-1"}),
        verification_type="unlisted",
    )
    world = {"patients": {"P-1": {"patient_id": "P-1"}, "P-2": {"patient_id": "P-2"}}}
    task = attrs.evolve(
        task,
        injection=injection,
        environment=type(task.environment).of(world),
        required_tools=("get_patient_record",),
    )
    script = derive("row", task)

    assert (1.0, 0.0) == (reward(script, "careful"), reward(script, "gullible"))
