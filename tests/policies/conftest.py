"""Policies with their tasks, and a stub endpoint for those that ask a model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from documents import at

from ipistate.agents.items import input_messages
from ipistate.generate import builtin
from ipistate.kernel.environment import Environment
from ipistate.kernel.values import JsonObject
from ipistate.policies import (
    Api,
    Endpoint,
    Patience,
    RandomPolicy,
    ScriptedPolicy,
    Scripts,
)
from ipistate.policies.openai import OpenAIPolicy
from ipistate.scoring.task import Task
from ipistate.scoring.traces import read_arguments
from ipistate.scoring.trajectories import by_row
from ipistate.tools.transition import call_tool


URL = "http://model.test/v1"


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    # Loopback is reached directly, wherever the tests run.
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="session")
def scripts() -> Scripts:
    """Return the scripts of the built-in rows."""
    rows = builtin.rows()
    return Scripts.of(rows, by_row(builtin.trajectories(), len(rows)))


@pytest.fixture
def policies(scripts: Scripts) -> dict[str, RandomPolicy | ScriptedPolicy]:
    """Return the policies that need no endpoint, by name."""
    careful = ScriptedPolicy("careful", scripts)
    gullible = ScriptedPolicy("gullible", scripts)
    return {one.name: one for one in (careful, gullible, RandomPolicy(7))}


def answered(call: JsonObject, world: Environment) -> tuple[Environment, JsonObject]:
    """Execute a call; return the world after it, and the item with its output."""
    done = call_tool(world, at(call, "name"), read_arguments(at(call, "arguments")))
    members: dict[str, Any] = {"call_id": call["call_id"], "output": done.output}
    item = JsonObject({"type": "function_call_output", **members})
    return done.environment, item


@pytest.fixture
def play() -> Callable[..., Awaitable[tuple[list[JsonObject], int]]]:
    """Return a function that plays a row to its end: conversation, start of the output."""

    async def played(
        policy: OpenAIPolicy | RandomPolicy | ScriptedPolicy,
        task: Task,
        wrap: Callable[..., JsonObject] = lambda item: item,
    ) -> tuple[list[JsonObject], int]:
        conversation = [*input_messages(task.responses_create_params)]
        start, world = len(conversation), task.environment
        tools: Any = task.responses_create_params["tools"]
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
def endpoint() -> Callable[..., Endpoint]:
    """Return a function that describes the stub's endpoint, with changes."""

    def described(**changes: Any) -> Endpoint:
        members: dict[str, Any] = {
            "url": URL,
            "model": "stub-1",
            "patience": Patience(backoff=1.0),
        }
        return Endpoint(**members | changes)

    return described


@pytest.fixture(params=[*Api])
def api(request: pytest.FixtureRequest) -> Api:
    """Take each API in turn."""
    api: Api = request.param
    return api


class Pauses:
    """A sleep that takes no time, and notes what it was asked for."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def pauses() -> Pauses:
    """Return a sleep that takes no time."""
    return Pauses()
