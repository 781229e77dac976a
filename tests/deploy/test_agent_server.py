"""An agent between a scripted model and a resources server, over real sockets."""

from __future__ import annotations

import asyncio
import json

from typing import TYPE_CHECKING, Any

import pytest

from tests.deploy.conftest import BOUNDS, CALLS, flat_row, run_body

from ipistate.agents import PolicyError


if TYPE_CHECKING:
    from tests.deploy.conftest import Deployment

pytestmark = pytest.mark.anyio

R0 = {"rollout_id": "r", "attempt": 0}
RELAY = ("agent", "resources")
NATIVE = ("environment", "agent", "resources")


@pytest.fixture
def whole(deployment: Deployment) -> Deployment:
    """Return a deployment with a real agent."""
    deployment.has_real_agent = True
    deployment.start()
    return deployment


async def saved(deployment: Deployment, kinds: tuple[str, ...]) -> None:
    """Take a checkpoint of these servers, in order."""
    for kind in kinds:
        prepared = await deployment.control(kind, "prepare")
        assert "prepared" == prepared["phase"], (kind, prepared)
    where: dict[str, Any] = {
        "checkpoint_dir": str(deployment.root),
        "episode_ids": [R0],
    }
    for kind in kinds:
        committed = await deployment.control(kind, "commit", **where)
        assert ["r"] == committed["episode_ids"], kind


async def restored(deployment: Deployment, kinds: tuple[str, ...]) -> None:
    """Put fresh servers in the place of all, and restore them."""
    deployment.start()
    where: dict[str, Any] = {
        "checkpoint_dir": str(deployment.root),
        "episode_ids": [R0],
    }
    for kind in kinds:
        found = await deployment.control(kind, "restore", "r1", **where)
        assert ["r-a1"] == found["restored"], kind
    for kind in kinds:
        await deployment.control(kind, "resume", "r1")


async def test_a_flat_row_is_played(whole: Deployment) -> None:
    """One turn of the model for each reference call, and one for the words."""
    status, reply = await whole.post("agent", "/run", flat_row())

    assert (200, 1.0) == (status, reply["reward"])
    assert len(CALLS) + 1 == len(whole.model.turns)
    assert 2 * len(CALLS) + 1 == len(reply["response"]["output"])


async def test_a_native_episode_is_played(whole: Deployment) -> None:
    """The environment opens the session, activates it once and closes it."""
    status, reply = await whole.run()

    assert (200, None, 1.0) == (status, reply["failure"], reply["result"]["reward"])
    assert {"sessions": 0, "at_boundary": 0} == (await whole.status("agent"))["report"][
        "counts"
    ]


@pytest.mark.parametrize("is_native", [False, True])
@pytest.mark.parametrize("turn", range(1, len(CALLS) + 2))
async def test_a_crash_at_every_turn(
    whole: Deployment,
    turn: int,
    is_native: bool,
) -> None:
    """Held at a call of the model: that call is made again, and none before it."""
    kinds = NATIVE if is_native else RELAY

    async def run(attempt: int) -> Any:
        if is_native:
            return (await whole.run(attempt))[1]["result"]
        return (await whole.post("agent", "/run", flat_row(attempt)))[1]

    uncut = await run(0)
    whole.start()
    turns, whole.model.turns = len(whole.model.turns), []
    whole.model.holds_at = turn
    task = asyncio.create_task(run(0))
    await whole.model.has_been_asked(turn)
    await saved(whole, kinds)
    await restored(whole, kinds)
    whole.model.holds_at = 0
    reply = await run(1)
    task.cancel()

    assert 1.0 == reply["reward"]
    assert uncut["response"]["output"] == reply["response"]["output"]
    asked = whole.model.turns
    assert asked[turn - 1] == asked[turn]
    assert turns + 1 == len(asked)


async def test_a_reply_is_held_while_a_checkpoint_is_open(whole: Deployment) -> None:
    """Nothing of it has an effect before the resume; then the run goes on."""
    whole.model.holds_at = 1
    running = asyncio.create_task(whole.post("agent", "/run", flat_row()))
    await whole.model.has_been_asked(1)
    await whole.control("agent", "prepare")
    whole.model.may_reply.set()
    report = (await whole.status("agent"))["report"]
    assert {"sessions": 1, "at_boundary": 1} == report["counts"]
    assert [len(whole.model.turns), 1] == [1, 1]
    refused = await whole.post("agent", "/run", flat_row(rollout="new"))
    assert (409, "admission_closed") == (refused[0], refused[1]["error"]["code"])
    await whole.control("agent", "resume")

    assert 1.0 == (await running)[1]["reward"]


async def test_a_retired_run_ends(whole: Deployment) -> None:
    """Its caller is told so, and nothing of it is left."""
    whole.model.holds_at = 1
    running = asyncio.create_task(whole.post("agent", "/run", flat_row()))
    await whole.model.has_been_asked(1)
    retired = await whole.control("agent", "retire", episode_ids=[R0])
    status, refused = await running

    assert ["r"] == retired["retired"]
    assert (409, "stale_attempt") == (status, refused["error"]["code"])
    counts = (await whole.status("agent"))["report"]["counts"]
    assert {"sessions": 0, "at_boundary": 0} == counts


async def test_a_model_that_fails(whole: Deployment) -> None:
    """The run fails without a verdict, in either form."""
    whole.model.fault = PolicyError("rate_limited", "too many")
    status, flat = await whole.post("agent", "/run", flat_row())
    _, native = await whole.post("environment", "/run", run_body(rollout="n"))

    assert (502, "agent", False) == (
        status,
        flat["detail"]["stage"],
        flat["detail"]["terminal"],
    )
    assert ("agent", None) == (native["failure"]["stage"], native["result"])


async def seeded(deployment: Deployment, **changes: Any) -> tuple[int, Any, str]:
    """Open a native session by hand; returns the reply and its cookie."""
    body = {
        "agent_session_id": "agent-session-1",
        "episode_id": R0,
        "task_id": {"taskset": "t", "task_id": "1"},
        "tool_accesses": [],
        "sandbox_access": None,
        **changes,
    }
    answer = await deployment.client.send(
        "POST",
        "http://agent",
        "/ng-rollout/r/v1/agent_sessions",
        json.dumps(body).encode(),
        bounds=BOUNDS,
        headers={"Content-Type": "application/json"},
    )
    cookies = "; ".join(f"{name}={value}" for name, value in answer.cookies.items())
    return answer.status, json.loads(answer.content), cookies


async def activated(
    deployment: Deployment, cookie: str, index: str | None, path: str = "/v1/responses"
) -> tuple[int, Any]:
    """Ask for an activation."""
    headers = {"cookie": cookie}
    if index is not None:
        headers["x-ng-agent-activation"] = index
    params = flat_row()["responses_create_params"]
    return await deployment.post("agent", f"/ng-rollout/r{path}", params, **headers)


async def test_activations_come_in_order(whole: Deployment) -> None:
    """The last one is repeated without running; any other index is refused."""
    _, _, cookie = await seeded(whole, tool_accesses=[grant(c.name) for c in CALLS])
    for index in ("0", "-1", "2", "x", "1.0", "01"):
        status, refused = await activated(whole, cookie, index)
        assert (409, "activation_out_of_order") == (status, refused["error"]["code"])
    captured = "/training-token-capture/v1/responses"
    first = await activated(whole, cookie, "1", captured)
    turns = len(whole.model.turns)
    again = await activated(whole, cookie, "1")

    assert (200, first) == (first[0], again)
    assert len(CALLS) + 1 == turns == len(whole.model.turns)
    assert 409 == (await activated(whole, cookie, "3"))[0]


def grant(name: str) -> dict[str, Any]:
    """Grant a tool of a server that has no such session."""
    return {
        "kind": "direct_http",
        "name": name,
        "required": True,
        "base_url": "http://resources",
        "cookies": {},
        "headers": {},
    }


async def test_what_no_session_is_for(whole: Deployment) -> None:
    """A foreign cookie, no prefix, the name of a run, a grant of another kind."""
    status, refused = await activated(whole, "Agent___agent=x", None)
    assert (409, "checkpoint_error") == (status, refused["error"]["code"])
    status, refused = await whole.post("agent", "/v1/responses", {})
    assert (400, "rollout_id_required") == (status, refused["error"]["code"])
    for changes in (
        {"agent_session_id": "run:r"},
        {"agent_session_id": ""},
        {"tool_accesses": [{"kind": "mcp"}]},
        {"tool_accesses": [1]},
        {"more": 1},
    ):
        assert 422 == (await seeded(whole, **changes))[0]
    assert 200 == (await seeded(whole))[0]
    other = {"rollout_id": "r", "attempt": 1}
    assert 409 == (await seeded(whole, episode_id=other))[0]


async def test_a_close_is_idempotent(whole: Deployment) -> None:
    """What does not exist is closed; another attempt's session is not."""
    await seeded(whole)
    body: dict[str, Any] = {"agent_session_id": "agent-session-1", "episode_id": R0}
    path = "/ng-rollout/r/v1/agent_sessions/close"
    late = {**body, "episode_id": {"rollout_id": "r", "attempt": 1}}
    assert 409 == (await whole.post("agent", path, late))[0]
    first = await whole.post("agent", path, body)

    assert (200, {}) == (first[0], first[1]["resources_cookies"])
    assert first == await whole.post("agent", path, body)


@pytest.mark.parametrize(
    "row", [{}, [], {"_ng_rollout_id": "r"}, {"_ng_rollout_id": 3}]
)
async def test_a_body_that_is_no_row(whole: Deployment, row: Any) -> None:
    """It is refused with what is wrong."""
    status, reply = await whole.post("agent", "/run", row)

    assert (422, True) == (status, bool(reply["detail"]))


async def test_metrics_are_the_resources_servers(whole: Deployment) -> None:
    """They are forwarded."""
    body: dict[str, Any] = {"verify_responses": []}
    direct = await whole.post("resources", "/aggregate_metrics", body)

    assert direct == await whole.post("agent", "/aggregate_metrics", body)
