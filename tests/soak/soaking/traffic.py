"""What is sent to the sessions of one task row: its seed, good and bad calls, verdicts."""

from __future__ import annotations

import json

from collections.abc import AsyncIterator
from random import Random
from typing import Final

import attrs

from documents import at
from stored import rollout

from ipistate import JsonObject, Task, ToolCall, encode
from ipistate.agents.items import calls_in, input_messages
from ipistate.generate import builtin
from ipistate.kernel.environment import Environment
from ipistate.policies import RandomPolicy
from ipistate.scoring.trajectories import Trajectories, by_row


SEED, VERIFY = "seed_session", "verify"
_RANDOM_CALLS: Final = 48
_BAD: Final = (
    ToolCall("no_such_tool", JsonObject()),
    ToolCall("send_message", JsonObject()),
    ToolCall("send_message", JsonObject({"env": 1, "body": None})),
)


@attrs.frozen
class Sent:
    """One request of a session: its route, which is a tool's name for a call."""

    route: str
    body: bytes


def message(number: int) -> Sent:
    """Return a call that every row has and that changes its world."""
    members = {"recipient": "Lab", "subject": "Ü", "body": f"Note {number}"}
    return Sent("send_message", encode(JsonObject(members)))


@attrs.frozen(eq=False, kw_only=True)
class Part:
    """The requests that sessions of one row draw from."""

    world: Environment
    seed: Sent
    calls: tuple[Sent, ...]
    verdicts: tuple[Sent, ...]

    def draw(self, random: Random, number: int) -> Sent:
        """Draw a request: mostly a call, a tenth of them end the session.

        Args:
            random: Decides.
            number: Makes a text that no request had before.
        """
        chance = random.random()
        if chance < 0.1:
            return random.choice(self.verdicts)
        if chance < 0.12:
            return self.seed
        if chance < 0.4:
            return message(number)
        return random.choice(self.calls)


async def parts() -> tuple[Part, ...]:
    """Make a part of every built-in row."""
    rows = builtin.rows()
    ways = by_row(builtin.trajectories(), len(rows))
    return tuple([await _part(task, ways[row]) for row, task in enumerate(rows)])


async def _part(task: Task, ways: Trajectories) -> Part:
    scripted = (ways.benign, ways.compromised)
    drawn = [call async for call in _drawn(task, ways)]
    calls = (*ways.benign, *ways.compromised, *drawn, *_BAD)
    return Part(
        world=task.environment,
        seed=Sent(SEED, task.to_json()),
        calls=tuple(Sent(call.name, encode(call.arguments)) for call in calls),
        verdicts=tuple(
            Sent(VERIFY, json.dumps(rollout(task, way)).encode()) for way in scripted
        ),
    )


async def _drawn(task: Task, ways: Trajectories) -> AsyncIterator[ToolCall]:
    # With the answers of a script in front of it, the policy names what exists. Without
    # the calls it takes each turn for its first, at which it never stops.
    items = rollout(task, ways.compromised)["response"]["output"]
    told = [JsonObject(one) for one in items if "output" in one]
    asked = [*input_messages(task.responses_create_params), *told]
    tools = [*at(task.responses_create_params, "tools")]
    for seed in range(_RANDOM_CALLS):
        reply = await RandomPolicy(seed).respond(asked, tools)
        for name, arguments in calls_in(reply.items):
            yield ToolCall(name, JsonObject(json.loads(arguments)))
