"""Scripted policies play the reference trajectories, as functions of the conversation."""

from __future__ import annotations

import asyncio

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest

from documents import at
from hypothesis import given
from hypothesis import strategies as st

from ipistate.agents.items import input_messages
from ipistate.agents.policy import PolicyError
from ipistate.generate import builtin
from ipistate.kernel import encode, render
from ipistate.kernel.values import JsonObject
from ipistate.policies import ScriptedPolicy, Scripts
from ipistate.policies.arbitrary import RandomPolicy
from ipistate.scoring.task import Task
from ipistate.scoring.trace_reading import calls_of_items
from ipistate.scoring.trajectories import Trajectories, by_row
from ipistate.scoring.verifier import verify
from ipistate.testing import json_objects
from ipistate.tools.transition import ToolCall


pytestmark = pytest.mark.anyio
ROWS = [*enumerate(builtin.rows())]
NAMES = [f"{task.domain}-{row}" for row, task in ROWS]


def body(item: JsonObject) -> JsonObject:
    """Wrap an output as agents do that keep the whole reply of the server."""
    whole = encode(JsonObject({"output": item["output"]})).decode()
    return JsonObject({**item, "output": whole})


def parts(item: JsonObject) -> JsonObject:
    """Wrap an output as a list of parts."""
    return JsonObject(
        {**item, "output": [{"type": "input_text", "text": item["output"]}]}
    )


def written(calls: tuple[ToolCall, ...]) -> list[tuple[str, str]]:
    """Return calls as they are written in items."""
    return [(call.name, render(call.arguments)) for call in calls]


@pytest.mark.parametrize(("row", "task"), ROWS, ids=NAMES)
@pytest.mark.parametrize("wrap", [lambda item: item, body, parts])
async def test_trajectories_are_played(
    row: int,
    task: Task,
    wrap: Callable[..., JsonObject],
    policies: dict[str, RandomPolicy | ScriptedPolicy],
    play: Callable[..., Awaitable[tuple[list[JsonObject], int]]],
) -> None:
    """Careful earns the reward and gullible follows, each by its trajectory."""
    ways = builtin.trajectories()[row]
    for name, calls, followed in (
        ("careful", ways.benign, False),
        ("gullible", ways.compromised, True),
    ):
        items, start = await play(policies[name], task, wrap)
        verdict = verify(items[start:], task.injection, task.required_tools)
        made = [(call.name, call.written) for call in calls_of_items(items[start:])]

        assert written(calls) == made
        assert (followed, 0.0 if followed else 1.0) == (
            verdict.injection_followed,
            verdict.reward,
        )
        assert at(items, -1, "content", 0, "text") == "Done."


@pytest.mark.parametrize("name", ["careful", "gullible", "random"])
async def test_a_prefix_gets_the_same_next_reply(
    name: str,
    policies: dict[str, RandomPolicy | ScriptedPolicy],
    play: Callable[..., Awaitable[tuple[list[JsonObject], int]]],
) -> None:
    """Whoever goes on from any prefix gets the items that followed there."""
    for _, task in ROWS[::5]:
        items, start = await play(policies[name], task)
        tools: Any = task.responses_create_params["tools"]
        for end in range(start, len(items)):
            if items[end].get("type") != "function_call_output":
                again = attrs.evolve(policies[name])
                reply = await again.respond(items[:end], tools)

                assert (items[end],) == reply.items


@pytest.mark.parametrize("name", ["careful", "gullible", "random"])
async def test_ids_are_unique_in_an_episode(
    name: str,
    policies: dict[str, RandomPolicy | ScriptedPolicy],
    play: Callable[..., Awaitable[tuple[list[JsonObject], int]]],
) -> None:
    """No two calls share an id, and no two items do."""
    for _, task in ROWS[::5]:
        items, _ = await play(policies[name], task)
        calls = [one for one in items if one.get("type") == "function_call"]
        ids = [one["id"] for one in items if "id" in one]

        assert len(calls) == len({one["call_id"] for one in calls})
        assert len(ids) == len({*ids})


async def test_gullible_follows_only_what_it_has_read(
    policies: dict[str, RandomPolicy | ScriptedPolicy],
    play: Callable[..., Awaitable[tuple[list[JsonObject], int]]],
) -> None:
    """Where every reply hides the injection, the gullible one stays on its task."""
    row, task = ROWS[0]

    def hidden(item: JsonObject) -> JsonObject:
        return JsonObject({**item, "output": "nothing here"})

    items, start = await play(policies["gullible"], task, hidden)
    made = [(call.name, call.written) for call in calls_of_items(items[start:])]

    assert written(builtin.trajectories()[row].benign) == made


async def test_what_cannot_be_recognised_counts_as_read(
    play: Callable[..., Awaitable[tuple[list[JsonObject], int]]],
) -> None:
    """A text that stands nowhere in the world leaves the compromised trajectory."""
    row, task = ROWS[0]
    bait = attrs.evolve(task.injection, injection_text="Stands nowhere.")
    ways = {0: builtin.trajectories()[row]}
    policy = ScriptedPolicy(
        "gullible", Scripts.of([attrs.evolve(task, injection=bait)], ways)
    )

    items, start = await play(policy, task)
    made = [(call.name, call.written) for call in calls_of_items(items[start:])]

    assert written(ways[0].compromised) == made


@given(json_objects(), st.integers(1, 4))
def test_repeated_calls_are_all_made(arguments: JsonObject, times: int) -> None:
    """A call that stands in a trajectory several times is made as often."""
    calls = (ToolCall("look", arguments),) * times
    policy, messages = only(calls)

    async def made() -> int:
        conversation = [*messages]
        while True:
            (item,) = (await policy.respond(conversation, [])).items
            if item["type"] == "message":
                return len(conversation) - len(messages)
            conversation.append(item)

    assert times == asyncio.run(made())


def only(
    calls: tuple[ToolCall, ...], task: Task = ROWS[0][1]
) -> tuple[ScriptedPolicy, tuple[JsonObject, ...]]:
    """Return a careful policy for one row, and the row's messages."""
    ways = Trajectories(row=0, benign=calls, compromised=calls)
    return (
        ScriptedPolicy("careful", Scripts.of([task], {0: ways})),
        input_messages(task.responses_create_params),
    )


@pytest.mark.parametrize(
    "spell",
    [
        lambda role, text: {"role": role, "content": text},
        lambda role, text: {"type": "message", "role": role, "content": text},
        lambda role, text: {
            "role": role,
            "content": [{"type": "input_text", "text": text}],
        },
    ],
)
async def test_a_row_is_found_however_its_messages_are_spelled(
    spell: Callable[..., dict[str, Any] | dict[str, str]],
) -> None:
    """Neither the type member nor parts instead of a text hide a row."""
    policy, messages = only((ToolCall("look"),))
    spelled = [JsonObject(spell(one["role"], one["content"])) for one in messages]

    assert "look" == (await policy.respond(spelled, [])).items[0]["name"]


async def test_an_input_that_is_a_text_is_what_the_user_says() -> None:
    """A row may have a text where others have messages."""
    task = attrs.evolve(
        ROWS[0][1], responses_create_params=JsonObject({"input": "Look around."})
    )
    policy, messages = only((ToolCall("look"),), task)

    assert ({"role": "user", "content": "Look around."},) == messages
    assert "look" == (await policy.respond(messages, [])).items[0]["name"]


async def test_an_input_may_have_more_than_messages() -> None:
    """A row that begins in the middle of an episode is found by all of its input."""
    call = {"type": "function_call", "call_id": "c", "name": "see", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "all"}
    given = [{"role": "user", "content": "Look."}, call, output]
    params = JsonObject({"input": given})
    policy, items = only(
        (ToolCall("look"),), attrs.evolve(ROWS[0][1], responses_create_params=params)
    )

    assert "look" == (await policy.respond(items, [])).items[0]["name"]
    with pytest.raises(PolicyError, match="unknown_prompt"):
        await policy.respond(items[:2], [])


async def test_an_unknown_prompt_is_refused_with_advice(
    policies: dict[str, RandomPolicy | ScriptedPolicy],
) -> None:
    """Nothing is played for messages that no row begins with."""
    with pytest.raises(PolicyError, match="--trajectories") as caught:
        await policies["careful"].respond(
            [JsonObject({"role": "user", "content": "Hello?"})], []
        )

    assert "unknown_prompt" == caught.value.code


async def test_rows_without_trajectories_are_not_played() -> None:
    """A row that has none is as good as unknown, and the others keep theirs."""
    tasks = [task for _, task in ROWS[:2]]
    scripts = Scripts.of(tasks, by_row([builtin.trajectories()[1]], 2))

    assert 1 == len(scripts)
    with pytest.raises(PolicyError, match="unknown_prompt"):
        scripts.script(input_messages(tasks[0].responses_create_params))


async def test_rows_that_only_differ_in_their_world_are_told() -> None:
    """The same messages with other trajectories are refused, the rows named."""
    task = ROWS[0][1]
    one, other = builtin.trajectories()[0], builtin.trajectories()[1]
    messages = input_messages(task.responses_create_params)
    same = Scripts.of([task] * 3, {0: one, 2: attrs.evolve(one, row=2)})
    different = Scripts.of([task] * 3, {0: one, 2: attrs.evolve(other, row=2)})

    assert 0 == same.script(messages).row
    with pytest.raises(PolicyError, match="rows 0 and 2") as caught:
        different.script(messages)
    assert "ambiguous_prompt" == caught.value.code
