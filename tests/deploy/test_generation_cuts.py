"""A policy model and its worker: cut in the middle, killed, and continued."""

from __future__ import annotations

import asyncio
import json

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from loopback import Loopback
from scripted_engine import ScriptedEngine
from starlette.datastructures import Secret
from starlette.responses import JSONResponse
from tests.deploy.conftest import TOKEN, Deployment, ScriptedAgent

from ipistate.capture import CommittedRow
from ipistate.clients import HttpClient
from ipistate.deploy import (
    ModelSettings,
    WorkerSettings,
    create_model_app,
    create_worker_app,
)
from ipistate.server import ServerSettings
from ipistate.storage import CaptureLedger


pytestmark = pytest.mark.anyio

WORDS = "one two three four five six "
ASKED = [{"role": "user", "content": "Count"}]
R0 = {"rollout_id": "r", "attempt": 0}


@attrs.define(eq=False)
class Pair:
    """A policy model in front of a worker."""

    root: Path
    deployment: Deployment
    engine: ScriptedEngine = attrs.field(factory=ScriptedEngine)
    worker: Any = None

    def start(self, **changes: Any) -> None:
        """Put a fresh policy model in the place of the one that is there."""
        hosts = self.deployment.hosts.hosts
        if self.worker is None:
            settings = WorkerSettings(
                token_store=self.root / "tokens", cut_token=Secret("cut")
            )
            self.worker = create_worker_app(settings, self.engine)
        hosts["worker"] = self.worker
        client = HttpClient(resolver=self.deployment.hosts)
        self.deployment.clients.append(client)
        model = ModelSettings(
            server=ServerSettings(
                instance_name="model", checkpoint_token=Secret(TOKEN)
            ),
            upstream_url="http://worker/v1",
            ledger_dir=self.root / "ledger",
            captures_tokens=True,
            cut_token=Secret("cut"),
        )
        hosts["model"] = create_model_app(attrs.evolve(model, **changes), client=client)

    async def call(self, key: str, **more: Any) -> Any:
        """Make a call of a rollout."""
        body = {"messages": ASKED, "max_tokens": 20, **more}
        path = f"/ng-rollout/{key}/v1/chat/completions"
        status, reply = await self.deployment.post("model", path, body)
        assert 200 == status, reply
        return reply["choices"][0]["message"]["content"]

    async def saved(self, name: str = "c1", attempt: int = 0) -> Any:
        """Take a checkpoint; return the report of its prepare, and where it is."""
        prepared = await self.deployment.control("model", "prepare", name)
        assert "prepared" == prepared["phase"]
        where: dict[str, Any] = {
            "checkpoint_dir": str(self.root / name),
            "episode_ids": [{**R0, "attempt": attempt}],
        }
        committed = await self.deployment.control("model", "commit", name, **where)
        return prepared["report"]["counts"], where, committed

    async def reborn(self, where: Any, name: str = "r1") -> None:
        """Restore a checkpoint in a fresh policy model."""
        self.start()
        await self.deployment.control("model", "restore", name, **where)
        await self.deployment.control("model", "resume", name)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    """Start both."""
    async with Loopback({}) as hosts, HttpClient(resolver=hosts) as client:
        deployment = Deployment(tmp_path, hosts, client, ScriptedAgent(client))
        pair = Pair(tmp_path, deployment)
        pair.start()
        yield pair
        await deployment.close()


async def test_a_generation_goes_on_after_a_crash(pair: Pair) -> None:
    """Cut at the third word, it costs three more, and its row is a whole call's."""
    pair.engine.holds_at = 3
    first = asyncio.create_task(pair.call("r"))
    await pair.engine.has_made(3)
    counts, where, committed = await pair.saved()
    assert (1, 0, 0) == (counts["cut"], counts["cut_failed"], counts["cut_skipped"])
    (key,) = committed["staging_keys"]
    assert key.startswith("__generation_cut__/r/")
    first.cancel()
    pair.engine.holds_at = None
    await pair.reborn(where)

    assert WORDS == await pair.call("r-a1")
    assert 6 == pair.engine.made
    (row,) = CaptureLedger(pair.root / "ledger").rows("r-a1")
    assert isinstance(row, CommittedRow)
    status = await pair.deployment.status("model")
    assert [] == status["restored_generation_cuts"]


async def test_another_request_starts_over(pair: Pair) -> None:
    """The cut is of what was asked, and stays for who asks it again."""
    pair.engine.holds_at = 3
    first = asyncio.create_task(pair.call("r"))
    await pair.engine.has_made(3)
    _, where, _ = await pair.saved()
    first.cancel()
    pair.engine.holds_at = None
    await pair.reborn(where)
    other = [{"role": "user", "content": "Count again"}]

    assert WORDS == await pair.call("r-a1", messages=other)
    assert 9 == pair.engine.made
    status = await pair.deployment.status("model")
    assert ["r-a1"] == status["restored_generation_cuts"]


async def test_a_cut_survives_a_second_crash(pair: Pair) -> None:
    """Nothing has reached its attempt: it is written again, for the one after it."""
    pair.engine.holds_at = 3
    first = asyncio.create_task(pair.call("r"))
    await pair.engine.has_made(3)
    _, where, _ = await pair.saved()
    first.cancel()
    pair.engine.holds_at = None
    await pair.reborn(where)
    _, where, _ = await pair.saved("c2", 1)
    await pair.reborn(where, "r2")

    assert WORDS == await pair.call("r-a2")
    assert 6 == pair.engine.made


async def gone(scope: Any, *_: object) -> None:
    """Break every connection."""
    scope["transport"].abort()


async def slow(scope: Any, receive: Any, send: Any) -> None:
    """Never answer."""
    while (await receive())["type"] != "http.disconnect":
        pass


BROKEN: dict[str, Any] = {
    "gone": gone,
    "slow": slow,
    "refusing": JSONResponse({"error": {}}, 401),
    "lying": JSONResponse({"cut_id": "c"}),
    "garbled": JSONResponse("no receipt"),
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN)
async def test_a_worker_that_cannot_cut(pair: Pair, answer: Any) -> None:
    """The checkpoint is taken in time without the cut, and the call starts over."""
    pair.engine.holds_at = 3
    first = asyncio.create_task(pair.call("r"))
    await pair.engine.has_made(3)
    worker = pair.worker

    async def broken(scope: Any, receive: Any, send: Any) -> None:
        is_cut = scope["path"].endswith("/generation-cut")
        await (answer if is_cut else worker)(scope, receive, send)

    pair.deployment.hosts.hosts["worker"] = broken
    prepared = await pair.deployment.control("model", "prepare", seconds=0.6)
    assert "prepared" == prepared["phase"]
    counts = prepared["report"]["counts"]
    assert (0, 1) == (counts["cut"], counts["cut_failed"])
    where: dict[str, Any] = {
        "checkpoint_dir": str(pair.root / "c"),
        "episode_ids": [R0],
    }
    await pair.deployment.control("model", "commit", **where)
    first.cancel()
    pair.engine.holds_at = None
    await pair.reborn(where)

    assert WORDS == await pair.call("r-a1")
    assert 9 == pair.engine.made


async def test_constrained_calls_are_skipped(pair: Pair) -> None:
    """They are counted, and no worker is asked."""
    pair.engine.holds_at = 3
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    more = {"tools": [tool], "tool_choice": "required"}
    first = asyncio.create_task(pair.call("r", **more))
    await pair.engine.has_made(3)
    counts, _, _ = await pair.saved()
    first.cancel()

    assert (0, 0, 1) == (counts["cut"], counts["cut_failed"], counts["cut_skipped"])


async def test_without_a_token_nothing_is_cut(pair: Pair) -> None:
    """The calls are skipped, as those that may not be cut."""
    pair.start(cut_token=None)
    pair.engine.holds_at = 3
    first = asyncio.create_task(pair.call("r"))
    await pair.engine.has_made(3)
    counts, _, _ = await pair.saved()
    first.cancel()

    assert (0, 0, 1) == (counts["cut"], counts["cut_failed"], counts["cut_skipped"])


async def test_what_is_cut_goes_on_after_a_resume(pair: Pair) -> None:
    """A checkpoint without a crash costs nothing but the cut."""
    pair.engine.holds_at = 3
    first = asyncio.create_task(pair.call("r"))
    await pair.engine.has_made(3)
    await pair.saved()
    pair.engine.goes_on.set()
    await pair.deployment.control("model", "resume")

    assert WORDS == await first
    assert 6 == pair.engine.made
    rows = CaptureLedger(pair.root / "ledger").rows("r")
    assert json.dumps([attrs.asdict(one)["cum_len"] for one in rows]) != "[null]"
