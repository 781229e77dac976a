"""Eighty rollouts in a deployment that dies twice, beside one that does not."""

from __future__ import annotations

import asyncio
import json

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from stub import scripted
from tests.deploy.conftest import flat_row, run_body

from ipistate.generate import builtin


if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.deploy.conftest import Deployment

    from ipistate.agents import PolicyReply
    from ipistate.kernel import JsonObject

pytestmark = pytest.mark.anyio

ROLLOUTS = 80
ROWS = [json.loads(task.to_json()) for task in builtin.rows()]
TOPOLOGIES = {
    "native": ("environment", "agent", "resources"),
    "relay": ("agent", "resources"),
}


class HoldingModel:
    """Plays the careful script; in its first life some calls of it are held."""

    name = "careful"

    def __init__(self) -> None:
        self.script = scripted()
        self.calls = 0
        self.held = 0
        self.holds: dict[str, int] = {}
        """By the row's first words, the turn that is not answered in this life."""
        self.settled = asyncio.Condition()

    async def respond(
        self, conversation: Sequence[JsonObject], tools: Sequence[JsonObject]
    ) -> PolicyReply:
        """Reply as the script does, or wait for the end of this life."""
        async with self.settled:
            self.calls += 1
            turn = sum(one.get("type") == "function_call" for one in conversation)
            is_held = self.holds.get(str(conversation[0]["content"])) == turn
            self.held += is_held
            self.settled.notify_all()
        if is_held:
            await asyncio.Event().wait()
        return await self.script.respond(conversation, tools)


async def played(
    deployment: Deployment, topology: str, number: int, attempt: int
) -> Any:
    """Play one rollout, and return what its row then has."""
    row = ROWS[number % len(ROWS)]
    if topology == "relay":
        body = {**flat_row(attempt, f"r{number}"), **row}
        status, reply = await deployment.post("agent", "/run", body)
        assert 200 == status, reply
        return outcome(reply)
    body = run_body(attempt, f"r{number}")
    given = dict(row)
    params = given.pop("responses_create_params")
    body["task"]["task_input"] = {
        "responses_create_params": params,
        "task_data": given,
    }
    status, reply = await deployment.post("environment", "/run", body)
    assert (200, None) == (status, reply["failure"])
    return outcome(reply["result"])


def outcome(row: Any) -> tuple[Any, ...]:
    """Return what must be equal: the reward and the whole trajectory."""
    return row["reward"], row["injection_followed"], row["response"]["output"]


async def checkpointed(
    deployment: Deployment, kinds: Sequence[str], name: str, attempt: int
) -> list[dict[str, Any]]:
    """Take a checkpoint of what is in flight, and return its episodes."""
    live = {"rollout_id": "", "attempt": attempt}
    for kind in kinds:
        prepared = await deployment.control(kind, "prepare", name)
        assert ("prepared", []) == (prepared["phase"], prepared["report"]["restarts"])
    scope = [{**live, "rollout_id": f"r{number}"} for number in range(ROLLOUTS)]
    where: dict[str, Any] = {
        "checkpoint_dir": str(deployment.root / name),
        "episode_ids": scope,
    }
    for kind in kinds:
        committed = await deployment.control(kind, "commit", name, **where)
        assert ROLLOUTS == len(committed["episode_ids"])
    return scope


async def reborn(
    deployment: Deployment, kinds: Sequence[str], name: str, scope: list[dict[str, Any]]
) -> None:
    """Put fresh servers in the place of all, restored from a checkpoint, and resume."""
    deployment.start()
    where: dict[str, Any] = {
        "checkpoint_dir": str(deployment.root / name),
        "episode_ids": scope,
    }
    for kind in kinds:
        found = await deployment.control(kind, "restore", f"of-{name}", **where)
        assert ROLLOUTS == len(found["restored"])
    for kind in kinds:
        await deployment.control(kind, "resume", f"of-{name}")


@pytest.mark.parametrize("topology", TOPOLOGIES)
async def test_two_crashes_change_nothing(
    deployment: Deployment, topology: str
) -> None:
    """All in flight, saved, killed; saved again before any goes on, killed; continued."""
    kinds, model = TOPOLOGIES[topology], HoldingModel()
    deployment.has_real_agent = True
    deployment.model = model
    deployment.start()
    everyone = range(ROLLOUTS)
    uncut = await asyncio.gather(
        *(played(deployment, topology, number, 0) for number in everyone)
    )
    calls, model.calls = model.calls, 0

    random = Random(ROLLOUTS)
    steps = {
        str(row["responses_create_params"]["input"][0]["content"]): random.randint(
            0, len(builtin.trajectories()[number].benign)
        )
        for number, row in enumerate(ROWS)
    }
    model.holds = steps
    deployment.start()
    first = [
        asyncio.create_task(played(deployment, topology, number, 0))
        for number in everyone
    ]
    async with model.settled:
        await model.settled.wait_for(lambda: model.held == ROLLOUTS)
    before = model.calls
    scope = await checkpointed(deployment, kinds, "c1", 0)
    await reborn(deployment, kinds, "c1", scope)
    scope = await checkpointed(deployment, kinds, "c2", 1)
    await reborn(deployment, kinds, "c2", scope)
    model.holds = {}
    continued = await asyncio.gather(
        *(played(deployment, topology, number, 2) for number in everyone)
    )
    for task in first:
        task.cancel()

    assert list(uncut) == list(continued)
    # Each held call is made once more, and no other.
    assert calls + ROLLOUTS == model.calls
    assert before - ROLLOUTS + (model.calls - before) == calls
    for kind in kinds:
        counts = (await deployment.status(kind))["report"]["counts"]
        assert {0} == set(counts.values()), (kind, counts)
