"""Policies with their tasks, and a stub endpoint for those that ask a model."""

from __future__ import annotations

import pytest

from ipistate.agents.items import input_messages
from ipistate.generate import builtin
from ipistate.kernel.values import JsonObject
from ipistate.policies import (
    Api,
    Endpoint,
    Patience,
    RandomPolicy,
    ScriptedPolicy,
    Scripts,
)
from ipistate.scoring.traces import read_arguments
from ipistate.scoring.trajectories import by_row
from ipistate.tools.transition import call_tool


URL = "http://model.test/v1"


@pytest.fixture
def anyio_backend():
    """Run asynchronous tests on asyncio."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch):
    # Loopback is reached directly, wherever the tests run.
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="session")
def scripts():
    """Return the scripts of the built-in rows."""
    rows = builtin.rows()
    return Scripts.of(rows, by_row(builtin.trajectories(), len(rows)))


@pytest.fixture
def policies(scripts):
    """Return the policies that need no endpoint, by name."""
    careful = ScriptedPolicy("careful", scripts)
    gullible = ScriptedPolicy("gullible", scripts)
    return {one.name: one for one in (careful, gullible, RandomPolicy(7))}


def answered(call, world):
    """Execute a call; return the world after it, and the item with its output."""
    done = call_tool(world, call["name"], read_arguments(call["arguments"]))
    members = {"call_id": call["call_id"], "output": done.output}
    item = JsonObject({"type": "function_call_output", **members})
    return done.environment, item


@pytest.fixture
def play():
    """Return a function that plays a row to its end: conversation, start of the output."""

    async def played(policy, task, wrap=lambda item: item):
        conversation = [*input_messages(task.responses_create_params)]
        start, world = len(conversation), task.environment
        tools = task.responses_create_params["tools"]
        for _ in range(30):
            reply = await policy.respond(conversation, tools)
            conversation += reply.items
            calls = [one for one in reply.items if one["type"] == "function_call"]
            if not calls:
                return conversation, start
            for call in calls:
                world, item = answered(call, world)
                conversation.append(wrap(item))
        raise AssertionError("the episode has no end")

    return played


@pytest.fixture
def endpoint():
    """Return a function that describes the stub's endpoint, with changes."""

    def described(**changes):
        members = {"url": URL, "model": "stub-1", "patience": Patience(backoff=1.0)}
        return Endpoint(**members | changes)

    return described


@pytest.fixture(params=[*Api])
def api(request):
    """Take each API in turn."""
    return request.param


class Pauses:
    """A sleep that takes no time, and notes what it was asked for."""

    def __init__(self):
        self.seconds = []

    async def __call__(self, seconds):
        self.seconds.append(seconds)


@pytest.fixture
def pauses():
    """Return a sleep that takes no time."""
    return Pauses()
