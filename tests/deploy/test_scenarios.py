"""The scenarios that a deployment must pass, with their numbers."""

from __future__ import annotations

import asyncio

from typing import Any

import attrs
import pytest

from staging import Staging
from starlette.applications import Starlette
from starlette.datastructures import Secret
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.deploy.conftest import CALLS, TOKEN, Deployment, flat_row

from ipistate.agents import PolicyReply
from ipistate.capture import CommittedRow
from ipistate.clients import HttpClient
from ipistate.deploy import (
    AgentSettings,
    ModelSettings,
    create_agent_app,
    create_model_app,
)
from ipistate.kernel import JsonArray, JsonObject, decode, encode
from ipistate.policies import Endpoint
from ipistate.policies.openai import OpenAIPolicy
from ipistate.server import ServerSettings
from ipistate.storage import CaptureLedger


pytestmark = pytest.mark.anyio

NATIVE = ("environment", "agent", "resources")
RELAY = ("agent", "resources")


class TwoCalls:
    """Calls one tool, then says that it is done; may be held at a turn."""

    name = "two-calls"

    def __init__(self) -> None:
        self.counts: list[int] = []
        """How many messages each call of the model has."""
        self.asked = asyncio.Condition()
        self.holds_at = 0

    async def respond(self, conversation: Any, tools: Any) -> PolicyReply:
        """Reply, or wait for the end of this life."""
        del tools
        async with self.asked:
            self.counts.append(len(conversation))
            number = len(self.counts)
            self.asked.notify_all()
        if number == self.holds_at:
            await asyncio.Event().wait()
        return PolicyReply(items=(reply_to(conversation),))

    async def has_been_asked(self, times: int) -> None:
        """Wait until there were so many calls."""
        async with self.asked:
            await self.asked.wait_for(lambda: len(self.counts) >= times)


def reply_to(conversation: Any) -> JsonObject:
    """Return the first reference call, and then words."""
    if any(one.get("type") == "function_call_output" for one in conversation):
        words = {"type": "message", "role": "assistant", "content": "Done."}
        return JsonObject(words)
    call = CALLS[0]
    named = {"type": "function_call", "name": call.name, "call_id": "c1"}
    return JsonObject({**named, "arguments": encode(call.arguments).decode()})


@pytest.fixture
def whole(deployment: Deployment) -> Deployment:
    """Return a deployment with a real agent and a model of two calls."""
    deployment.has_real_agent = True
    deployment.model = TwoCalls()
    deployment.start()
    return deployment


def begin(whole: Deployment, kinds: tuple[str, ...], attempt: int) -> Any:
    """Start a rollout whose prompt has two messages, or one in the flat form."""
    if kinds == NATIVE:
        return asyncio.create_task(whole.run(attempt))
    row = flat_row(attempt)
    params = dict(row["responses_create_params"])
    params["input"] = params["input"][-1:]
    body = {**row, "responses_create_params": params}
    return asyncio.create_task(whole.post("agent", "/run", body))


async def saved(
    whole: Deployment, kinds: tuple[str, ...], attempt: int, name: str
) -> dict[str, Any]:
    """Take a checkpoint and return what a restore of it names."""
    for kind in kinds:
        prepared = await whole.control(kind, "prepare", name)
        assert ("prepared", []) == (prepared["phase"], prepared["report"]["restarts"])
    where: dict[str, Any] = {
        "checkpoint_dir": str(whole.root / name),
        "episode_ids": [{"rollout_id": "r", "attempt": attempt}],
    }
    for kind in kinds:
        await whole.control(kind, "commit", name, **where)
    return where


async def reborn(
    whole: Deployment, kinds: tuple[str, ...], name: str, where: dict[str, Any]
) -> None:
    """Put fresh servers in the place of all, and restore a checkpoint."""
    whole.start()
    for kind in kinds:
        await whole.control(kind, "restore", name, **where)
    for kind in kinds:
        await whole.control(kind, "resume", name)


@pytest.mark.parametrize(
    ("kinds", "counts"),
    [(NATIVE, [2, 4, 4]), (RELAY, [1, 3, 3])],
    ids=["native", "relay"],
)
@pytest.mark.parametrize("crashes", [1, 2])
async def test_an_episode_that_is_cut_at_its_second_call(
    whole: Deployment, kinds: tuple[str, ...], counts: list[int], crashes: int
) -> None:
    """Over all lives the model is called three times, also if one crash follows another."""
    whole.model.holds_at = 2
    first = begin(whole, kinds, 0)
    await whole.model.has_been_asked(2)
    for crash in range(crashes):
        where = await saved(whole, kinds, crash, f"c{crash}")
        await reborn(whole, kinds, f"r{crash}", where)
    whole.model.holds_at = 0
    status, reply = await begin(whole, kinds, crashes)
    first.cancel()

    assert (200, counts) == (status, whole.model.counts)
    result = reply["result"] if kinds == NATIVE else reply
    assert 3 == len(result["response"]["output"])


async def test_without_the_resources_the_episode_is_another_one(
    deployment: Deployment,
) -> None:
    """A negative control: what goes on in no session gets an error from its tool.

    The reward does not tell: it is a function of the calls alone.
    """
    deployment.has_real_agent = True
    deployment.start()
    _, uncut = await begin(deployment, NATIVE, 0)
    deployment.start()
    deployment.model.turns.clear()
    deployment.model.holds_at = len(CALLS)
    first = begin(deployment, NATIVE, 0)
    await deployment.model.has_been_asked(len(CALLS))
    where = await saved(deployment, NATIVE, 0, "c1")
    deployment.start()
    for kind in NATIVE[:2]:
        await deployment.control(kind, "restore", "r1", **where)
        await deployment.control(kind, "resume", "r1")
    deployment.model.holds_at = 0
    _, cut = await begin(deployment, NATIVE, 1)
    first.cancel()

    before, after = (one["result"]["response"]["output"] for one in (uncut, cut))
    different = [n for n, item in enumerate(before) if item != after[n]]
    assert [2 * len(CALLS) - 1] == different
    assert "session" in after[different[0]]["output"].lower()


class SlowVerify:
    """A resources server whose verdicts wait, and that says how they are to be treated."""

    def __init__(self, app: Any, mode: str) -> None:
        self.app = app
        self.mode = mode
        self.may_answer = asyncio.Event()
        self.verdicts = 0
        self.begun = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Let a verdict wait, and name the mode with each seed."""
        is_verify = scope["path"].endswith("/verify")
        if is_verify:
            self.verdicts += 1
            self.begun.set()
            await self.may_answer.wait()
        mode = (b"x-ng-checkpoint-verify", self.mode.encode())

        async def named(message: Any) -> None:
            if message["type"] == "http.response.start":
                kept = [one for one in message["headers"] if one[0] != mode[0]]
                message = {**message, "headers": [*kept, mode]}
            await send(message)

        await self.app(scope, receive, named)


async def test_a_verdict_that_waits_holds_the_environment(whole: Deployment) -> None:
    """Its episode is the blocker, and the verdict is given once in all."""
    slow = SlowVerify(whole.hosts.hosts["resources"], "wait")
    whole.hosts.hosts["resources"] = slow
    running = begin(whole, NATIVE, 0)
    await slow.begun.wait()
    held = await whole.control("environment", "prepare", "c1", seconds=0.3)
    assert ("preparing", ["r"]) == (held["phase"], held["report"]["blockers"])
    slow.may_answer.set()
    prepared = await whole.control("environment", "prepare", "c1")
    assert "prepared" == prepared["phase"]
    for kind in NATIVE[1:]:
        await whole.control(kind, "prepare", "c1")
    where: dict[str, Any] = {
        "checkpoint_dir": str(whole.root / "c1"),
        "episode_ids": [{"rollout_id": "r", "attempt": 0}],
    }
    for kind in NATIVE:
        await whole.control(kind, "commit", "c1", **where)
    await reborn(whole, NATIVE, "r1", where)
    slow.app = whole.hosts.hosts["resources"]
    whole.hosts.hosts["resources"] = slow
    status, reply = await begin(whole, NATIVE, 1)
    running.cancel()

    assert (200, None, 1) == (status, reply["failure"], slow.verdicts)
    assert [2, 4] == whole.model.counts


async def test_a_verdict_that_is_replayed_does_not_hold(whole: Deployment) -> None:
    """The checkpoint is taken meanwhile, and the verdict is given again after it."""
    slow = SlowVerify(whole.hosts.hosts["resources"], "replay")
    whole.hosts.hosts["resources"] = slow
    running = begin(whole, NATIVE, 0)
    await slow.begun.wait()
    where = await saved(whole, NATIVE, 0, "c1")
    running.cancel()
    await reborn(whole, NATIVE, "r1", where)
    slow.app = whole.hosts.hosts["resources"]
    whole.hosts.hosts["resources"] = slow
    slow.may_answer.set()
    status, reply = await begin(whole, NATIVE, 1)

    assert (200, None, 2) == (status, reply["failure"], slow.verdicts)
    assert [2, 4] == whole.model.counts


async def test_an_episode_that_ends_during_a_prepare(whole: Deployment) -> None:
    """It is neither lost nor done again: the next attempt only gets its result."""
    whole.model.holds_at = 0
    slow = SlowVerify(whole.hosts.hosts["resources"], "wait")
    whole.hosts.hosts["resources"] = slow
    running = begin(whole, NATIVE, 0)
    await slow.begun.wait()
    preparing = asyncio.create_task(whole.control("environment", "prepare", "c1"))
    await asyncio.wait((preparing, running), timeout=0.05)
    slow.may_answer.set()
    assert "prepared" == (await preparing)["phase"]
    for kind in NATIVE[1:]:
        await whole.control(kind, "prepare", "c1")
    where: dict[str, Any] = {
        "checkpoint_dir": str(whole.root / "c1"),
        "episode_ids": [{"rollout_id": "r", "attempt": 0}],
    }
    for kind in NATIVE:
        await whole.control(kind, "commit", "c1", **where)
    assert not running.done()
    text = next((whole.root / "c1").rglob("environment/**/records-*.jsonl")).read_text()
    assert '"next":"return"' in text.replace(" ", "")
    running.cancel()
    await reborn(whole, NATIVE, "r1", where)
    status, reply = await begin(whole, NATIVE, 1)

    assert (200, None, 1) == (status, reply["failure"], slow.verdicts)


async def test_a_server_that_only_restarts(whole: Deployment) -> None:
    """It is reported, left out of the scope, runs on, and starts over after a crash."""
    resources = whole.hosts.hosts["resources"]

    async def restarting(scope: Any, receive: Any, send: Any) -> None:
        async def named(message: Any) -> None:
            if message["type"] == "http.response.start":
                mark = (b"x-ng-checkpoint-restart", b"1")
                message = {**message, "headers": [*message["headers"], mark]}
            await send(message)

        seeds = scope["path"].endswith("/seed_session")
        await resources(scope, receive, named if seeds else send)

    whole.hosts.hosts["resources"] = restarting
    whole.model.holds_at = 2
    running = begin(whole, NATIVE, 0)
    await whole.model.has_been_asked(2)
    prepared = await whole.control("environment", "prepare", "c1")
    assert ("prepared", ["r"]) == (prepared["phase"], prepared["report"]["restarts"])
    where: dict[str, Any] = {"checkpoint_dir": str(whole.root / "c1")}
    await whole.control("environment", "commit", "c1", episode_ids=[], **where)
    await whole.control("environment", "resume", "c1")
    assert not running.done()
    running.cancel()
    whole.model.holds_at = 0
    whole.start()
    status, reply = await begin(whole, NATIVE, 1)

    assert (200, None) == (status, reply["failure"])
    assert [2, 4, 2, 4] == whole.model.counts


@attrs.define(eq=False)
class Captured:
    """A deployment with a policy model, its worker, and a ledger."""

    whole: Deployment
    staging: Staging = attrs.field(factory=Staging)
    asked: list[int] = attrs.field(factory=list)
    condition: asyncio.Condition = attrs.field(factory=asyncio.Condition)
    holds_at: int = 0

    @property
    def ledger(self) -> CaptureLedger:
        """The ledger's files."""
        return CaptureLedger(self.whole.root / "ledger")

    async def respond(self, request: Any) -> Response:
        """Be the worker."""
        body = decode(await request.body())
        assert isinstance(body, JsonObject)
        said: Any = body["input"]
        async with self.condition:
            self.asked.append(len(said))
            number = len(self.asked)
            self.condition.notify_all()
        if number == self.holds_at:
            await asyncio.Event().wait()
        item = JsonObject({**reply_to(said), "call_id": f"c{number}"})
        reply = JsonObject(
            {
                "id": f"resp-{number}",
                "status": "completed",
                "model": "m",
                "output": JsonArray([item]),
            }
        )
        return JSONResponse(self.staging.captured(body, reply))

    def start(self) -> None:
        """Put fresh servers in the place of all."""
        whole, hosts = self.whole, self.whole.hosts.hosts
        whole.start()
        token = Secret(TOKEN)
        hosts["endpoint"] = Starlette(
            routes=[Route("/v1/responses", self.respond, methods=["POST"])]
        )
        model = ModelSettings(
            server=ServerSettings(instance_name="model", checkpoint_token=token),
            upstream_url="http://endpoint/v1",
            ledger_dir=whole.root / "ledger",
            captures_tokens=True,
        )
        agent = AgentSettings(
            server=ServerSettings(instance_name="agent", checkpoint_token=token),
            resources_url="http://resources",
            names_episodes=True,
        )
        clients = [HttpClient(resolver=whole.hosts) for _ in range(2)]
        whole.clients += clients
        policy = OpenAIPolicy(
            Endpoint(url="http://model/v1", model="m"), resolver=whole.hosts
        )
        whole.clients.append(vars(vars(policy)["_wire"])["_client"])
        hosts["model"] = create_model_app(model, client=clients[0])
        hosts["agent"] = create_agent_app(agent, policy, client=clients[1])

    async def has_been_asked(self, times: int) -> None:
        """Wait until there were so many calls."""
        async with self.condition:
            await self.condition.wait_for(lambda: len(self.asked) >= times)


@pytest.fixture
async def captured(deployment: Deployment) -> Captured:
    """Start a deployment whose calls are captured."""
    deployment.has_real_agent = True
    captured = Captured(deployment)
    captured.start()
    return captured


async def test_the_same_checkpoint_is_restored_twice(captured: Captured) -> None:
    """What the first replacement has asked is in no lineage of the second one."""
    whole = captured.whole
    kinds = ("model", *RELAY)
    captured.holds_at = 2
    first = begin(whole, RELAY, 0)
    await captured.has_been_asked(2)
    where = await saved(whole, kinds, 0, "c1")
    for life in range(2):
        captured.start()
        for kind in kinds:
            await whole.control(kind, "restore", f"r{life}", **where)
        for kind in kinds:
            await whole.control(kind, "resume", f"r{life}")
        captured.holds_at = 0
        status, reply = await begin(whole, RELAY, 1)
        assert 200 == status, reply
    first.cancel()

    rows = captured.ledger.rows("r-a1")
    kept, again = rows
    assert isinstance(kept, CommittedRow)
    assert isinstance(again, CommittedRow)
    assert (("resp-1", "r"), ("resp-4", None)) == (
        (kept.response_id, kept.capture_key),
        (again.response_id, again.capture_key),
    )
    assert kept.model_call_id == again.parent_call_id
    assert [1, 3, 3, 3] == captured.asked
