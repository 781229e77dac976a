"""An environment server between an agent and a resources server, over real sockets."""

from __future__ import annotations

import asyncio

from typing import TYPE_CHECKING, Any

import pytest

from tests.deploy.conftest import run_body


if TYPE_CHECKING:
    from tests.deploy.conftest import Deployment

pytestmark = pytest.mark.anyio

KINDS = ("environment", "resources")
R0 = {"rollout_id": "r", "attempt": 0}


async def saved(deployment: Deployment) -> Any:
    """Take a checkpoint of both servers; return the environment's report."""
    report = None
    for kind in KINDS:
        prepared = await deployment.control(kind, "prepare")
        assert "prepared" == prepared["phase"], prepared
        report = report or prepared["report"]
    where: dict[str, Any] = {
        "checkpoint_dir": str(deployment.root),
        "episode_ids": [R0],
    }
    for kind in KINDS:
        committed = await deployment.control(kind, "commit", **where)
        assert ["r"] == committed["episode_ids"]
    return report


async def restored(deployment: Deployment) -> None:
    """Put fresh servers in the place of both, and restore them."""
    deployment.start()
    where: dict[str, Any] = {
        "checkpoint_dir": str(deployment.root),
        "episode_ids": [R0],
    }
    for kind in KINDS:
        found = await deployment.control(kind, "restore", "r1", **where)
        assert ["r-a1"] == found["restored"]
    for kind in KINDS:
        await deployment.control(kind, "resume", "r1")


async def test_an_episode_is_played(deployment: Deployment) -> None:
    """Seeds, activation, close, verify: the reference calls earn the whole reward."""
    status, reply = await deployment.run()

    assert (200, None) == (status, reply["failure"])
    assert ({"rollout_id": "r", "attempt": 0}, 1.0) == (
        reply["episode_id"],
        reply["result"]["reward"],
    )
    assert ["open r", "respond r", "close r"] == deployment.agent.calls


async def test_an_episode_survives_a_crash(deployment: Deployment) -> None:
    """Cut while the agent plays: nothing is seeded again, the activation runs again."""
    deployment.agent.may_reply.clear()
    first = asyncio.create_task(deployment.run())
    await deployment.agent.has("respond r")
    report = await saved(deployment)
    assert ({"episodes": 1}, []) == (report["counts"], report["restarts"])
    first.cancel()
    await restored(deployment)
    deployment.agent.may_reply.set()
    status, reply = await deployment.run(attempt=1)

    assert (200, 1.0) == (status, reply["result"]["reward"])
    assert ["open r", "respond r", "respond r-a1", "close r-a1"] == [
        call for call in deployment.agent.calls if call != "close r"
    ]


async def test_another_task_does_not_continue_an_episode(
    deployment: Deployment,
) -> None:
    """The record stays for the right one."""
    deployment.agent.may_reply.clear()
    first = asyncio.create_task(deployment.run())
    await deployment.agent.has("respond r")
    await saved(deployment)
    first.cancel()
    await restored(deployment)
    deployment.agent.may_reply.set()
    status, refused = await deployment.run(attempt=1, task_data={})
    assert (409, "checkpoint_error") == (status, refused["error"]["code"])

    assert 200 == (await deployment.run(attempt=1))[0]


async def test_a_run_while_a_checkpoint_is_open(deployment: Deployment) -> None:
    """It is refused, as an HTTP error; a run of the same attempt as well."""
    deployment.agent.may_reply.clear()
    first = asyncio.create_task(deployment.run())
    await deployment.agent.has("respond r")
    status, refused = await deployment.run()
    assert (409, "checkpoint_error") == (status, refused["error"]["code"])
    await deployment.control("environment", "prepare")
    status, refused = await deployment.post("environment", "/run", run_body(0, "new"))
    assert (409, "admission_closed") == (status, refused["error"]["code"])
    await deployment.control("environment", "resume")
    deployment.agent.may_reply.set()

    assert 1.0 == (await first)[1]["result"]["reward"]


async def test_a_retired_episode_ends(deployment: Deployment) -> None:
    """Its caller is told so, and nothing of it is left."""
    deployment.agent.may_reply.clear()
    first = asyncio.create_task(deployment.run())
    await deployment.agent.has("respond r")
    retired = await deployment.control("environment", "retire", episode_ids=[R0])
    status, refused = await first

    assert ["r"] == retired["retired"]
    assert (409, "stale_attempt") == (status, refused["error"]["code"])
    assert {"episodes": 0} == (await deployment.status("environment"))["report"][
        "counts"
    ]


async def test_an_agent_that_is_gone(deployment: Deployment) -> None:
    """The failure is no end: another attempt may succeed; the resources are freed."""
    deployment.stop("agent")
    status, reply = await deployment.run()

    failure = reply["failure"]
    assert (200, None, "seed", False) == (
        status,
        reply["result"],
        failure["stage"],
        failure["terminal"],
    )
    # The clean-up comes after the answer.
    while (await deployment.status("environment"))["report"]["counts"]["episodes"]:
        pass
    assert 0 == len(deployment.hosts.hosts["resources"].state.shell.sessions)


async def test_an_episode_whose_time_is_up(deployment: Deployment) -> None:
    """It ends with a failure that another attempt would meet as well."""
    deployment.episode_seconds = 0.05
    deployment.start()
    deployment.agent.may_reply.clear()
    _, reply = await deployment.run()
    failure = reply["failure"]

    assert ("deadline", "agent", True) == (
        failure["failure_kind"],
        failure["stage"],
        failure["terminal"],
    )
    await deployment.agent.has("close r")


@pytest.mark.parametrize(
    "body",
    [{}, [], {**run_body(), "more": 1}, {"episode_id": {}, "task": run_body()["task"]}],
)
async def test_a_body_that_is_no_run(deployment: Deployment, body: Any) -> None:
    """It is refused with what is wrong, and starts nothing."""
    status, reply = await deployment.post("environment", "/run", body)

    assert (422, True) == (status, bool(reply["detail"]))
    assert [] == deployment.agent.calls


async def test_metrics_are_the_resources_servers(deployment: Deployment) -> None:
    """They are forwarded, and a server that is gone is said."""
    body: dict[str, Any] = {"verify_responses": []}
    direct = await deployment.post("resources", "/aggregate_metrics", body)
    assert direct == await deployment.post("environment", "/aggregate_metrics", body)
    deployment.stop("resources")
    status, reply = await deployment.post("environment", "/aggregate_metrics", body)

    assert (502, True) == (status, "resources server" in reply["detail"])


async def test_the_control_plane_needs_the_token(deployment: Deployment) -> None:
    """As that of every participant."""
    body = {"checkpoint_id": "c", "deadline_ts": 1.0}
    path = "/ng-control/v1/checkpoint/prepare"
    status, reply = await deployment.post("environment", path, body)

    assert (401, "unauthorized") == (status, reply["error"]["code"])
    assert "environment" == (await deployment.status("environment"))["kind"]
