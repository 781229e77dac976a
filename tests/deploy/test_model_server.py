"""A policy model in front of an endpoint: calls, checkpoints, and the ledger's routes."""

from __future__ import annotations

import asyncio
import json
import time

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from loopback import Loopback
from staging import Staging
from starlette.applications import Starlette
from starlette.datastructures import Secret
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.deploy.conftest import BOUNDS, TOKEN, Deployment, ScriptedAgent

from ipistate.capture import (
    CAPTURE_MEMBER,
    COORDS_MEMBER,
    CommittedRow,
    FailureRow,
)
from ipistate.clients import HttpClient
from ipistate.deploy import ModelSettings, create_model_app
from ipistate.kernel import JsonObject, freeze
from ipistate.server import ServerSettings
from ipistate.storage import CaptureLedger


pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
CONTROL = "/training-token-capture/control/rollouts"
R0 = {"rollout_id": "r", "attempt": 0}


class Endpoint:
    """Answers every call with its number, and waits when told to."""

    def __init__(self) -> None:
        self.may_reply = asyncio.Event()
        self.may_reply.set()
        self.seen: list[dict[str, Any]] = []
        self.called = asyncio.Condition()
        self.ended = 0
        self.reply: Response | None = None
        self.staging: Staging | None = None
        self.lies: dict[str, Any] = {}

    @property
    def app(self) -> Starlette:
        """Its application."""
        paths = (CHAT, "/v1/responses", "/v1/messages")
        return Starlette(
            routes=[Route(p, self.answer, methods=["POST"]) for p in paths]
        )

    @property
    def captured(self) -> list[Any]:
        """What calls had to be captured with."""
        return [one["body"].get(CAPTURE_MEMBER) for one in self.seen]

    async def answer(self, request: Any) -> Response:
        """Answer a call."""
        async with self.called:
            body = await request.json()
            key = request.headers.get("authorization")
            self.seen.append({"path": request.url.path, "body": body, "key": key})
            number = len(self.seen)
            self.called.notify_all()
        try:
            await self.may_reply.wait()
        finally:
            self.ended += 1
        if self.staging is not None and isinstance(body, dict):
            item = {"role": "assistant", "content": f"{number}"}
            reply = JsonObject({"id": f"resp_{number}", "output": freeze([item])})
            told = self.staging.captured(frozen(body), reply)
            return JSONResponse({**told, **self.lies} if self.lies else told)
        return self.reply or JSONResponse({"number": number})

    async def has(self, calls: int) -> None:
        """Wait until there were so many calls."""
        async with self.called:
            await self.called.wait_for(lambda: len(self.seen) >= calls)


@attrs.define(eq=False)
class Site:
    """A policy model, its endpoint, and calls to it."""

    root: Path
    deployment: Deployment
    endpoint: Endpoint = attrs.field(factory=Endpoint)
    changes: dict[str, Any] = attrs.field(factory=dict)

    @property
    def ledger(self) -> CaptureLedger:
        """The ledger's files."""
        return CaptureLedger(self.root / "ledger")

    def start(self) -> None:
        """Put a fresh process in the place of the one that is there."""
        token = Secret(TOKEN)
        settings = ModelSettings(
            server=ServerSettings(instance_name="policy_model", checkpoint_token=token),
            upstream_url="http://endpoint/v1/",
            ledger_dir=self.root / "ledger",
        )
        client = HttpClient(resolver=self.deployment.hosts)
        self.deployment.clients.append(client)
        hosts = self.deployment.hosts.hosts
        hosts["endpoint"] = self.endpoint.app
        hosts["model"] = create_model_app(
            attrs.evolve(settings, **self.changes), client=client
        )

    async def call(
        self, key: str = "r", path: str = CHAT, *said: str
    ) -> tuple[int, Any]:
        """Make a call of a rollout, or of nobody with an empty key."""
        prefix = f"/ng-rollout/{key}" if key else ""
        roles = ("user", "assistant")
        messages = [{"role": roles[n % 2], "content": t} for n, t in enumerate(said)]
        return await self.deployment.post(
            "model",
            prefix + path,
            {"messages": messages},
            Authorization="Bearer sk-upstream",
        )

    def capture(self) -> Staging:
        """Put a model that captures in front of a worker."""
        self.changes = {"captures_tokens": True}
        self.endpoint.staging = staging = Staging()
        self.start()
        return staging

    async def control(self, operation: str, name: str = "c1", **members: Any) -> Any:
        """Make a control call that succeeds."""
        return await self.deployment.control("model", operation, name, **members)

    async def counts(self) -> Any:
        """Return what the participant counts."""
        return (await self.deployment.status("model"))["report"]["counts"]

    async def rollouts(self, what: str, ids: Any, token: str = TOKEN) -> Any:
        """Call a route of the ledger."""
        return await self.deployment.post(
            "model",
            f"{CONTROL}/{what}",
            {"rollout_ids": ids},
            Authorization=f"Bearer {token}",
        )

    async def manifest(self, key: str, token: str = TOKEN) -> tuple[int, Any]:
        """Fetch a manifest."""
        answer = await self.deployment.client.send(
            "GET",
            "http://model",
            f"{CONTROL}/{key}/manifest",
            bounds=BOUNDS,
            headers={"Authorization": f"Bearer {token}"},
        )
        return answer.status, json.loads(answer.content)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """Start a policy model."""
    async with Loopback({}) as hosts, HttpClient(resolver=hosts) as client:
        site = Site(
            tmp_path, Deployment(tmp_path, hosts, client, ScriptedAgent(client))
        )
        site.start()
        yield site
        await site.deployment.close()


def frozen(document: Any) -> JsonObject:
    """Return a document as a value."""
    found = freeze(document)
    assert isinstance(found, JsonObject)
    return found


def row(call: str = "call-1") -> CommittedRow:
    """Return the row of a call."""
    return CommittedRow(
        model_call_id=call,
        fingerprint="f",
        context_len=1,
        context_digest="d",
        digest="h",
        staging_key=f"staged/{call}",
    )


@pytest.mark.parametrize("path", [CHAT, "/v1/responses", "/v1/messages"])
@pytest.mark.parametrize("key", ["r", "r-a3", ""])
async def test_a_call_is_passed_on(site: Site, key: str, path: str) -> None:
    """Body and key reach the endpoint, and its reply the caller."""
    assert (200, {"number": 1}) == await site.call(key, path)

    (seen,) = site.endpoint.seen
    assert (path, {"messages": []}, "Bearer sk-upstream") == (*seen.values(),)
    assert 0 == (await site.counts())["inflight"]


@pytest.mark.parametrize("key", ["r%20x", "-r", ".r", "r:1"])
async def test_a_malformed_capture_key(site: Site, key: str) -> None:
    """It is refused before anything runs."""
    status, refused = await site.call(key)

    assert (400, "invalid_rollout_id") == (status, refused["error"]["code"])
    assert [] == site.endpoint.seen


async def test_a_reply_is_held_while_a_checkpoint_is_open(site: Site) -> None:
    """Prepare does not wait for the generation, and the reply comes after the resume."""
    site.endpoint.may_reply.clear()
    first = asyncio.create_task(site.call())
    await site.endpoint.has(1)
    prepared = await site.control("prepare")
    assert "prepared" == prepared["phase"]
    assert (1, 1) == (
        prepared["report"]["counts"]["inflight"],
        prepared["report"]["counts"]["held"],
    )
    site.endpoint.may_reply.set()
    waiting = asyncio.create_task(site.call("s"))
    while not site.endpoint.ended:
        await asyncio.wait((first, waiting), timeout=0.01)
    assert not first.done()
    await site.control("resume")

    assert {1, 2} == {(await one)[1]["number"] for one in (first, waiting)}


async def test_a_call_while_a_checkpoint_is_open_is_not_admitted(site: Site) -> None:
    """It waits at the gate, and the endpoint does not hear of it before the resume."""
    await site.control("prepare")
    call = asyncio.create_task(site.call())
    await asyncio.wait((call,), timeout=0.05)
    assert ([], 0) == (site.endpoint.seen, (await site.counts())["inflight"])
    await site.control("resume")

    assert (200, {"number": 1}) == await call


async def test_a_retire_cancels_a_call(site: Site) -> None:
    """Its caller is told, its generation ends, and its ledger is fenced."""
    site.ledger.append("r", row())
    site.endpoint.may_reply.clear()
    call = asyncio.create_task(site.call())
    await site.endpoint.has(1)
    retired = await site.control("retire", episode_ids=[R0])
    status, refused = await call

    assert ["r"] == retired["retired"]
    assert (409, "stale_attempt") == (status, refused["error"]["code"])
    assert (409, "stale_attempt") == (
        (again := await site.call())[0],
        again[1]["error"]["code"],
    )
    assert 410 == (await site.manifest("r"))[0]
    assert 1 == len(site.endpoint.seen)


async def test_a_client_that_leaves_takes_its_call_with_it(site: Site) -> None:
    """Nothing is counted any more, running or waiting, and the next prepare is ready."""
    site.endpoint.may_reply.clear()
    call = asyncio.create_task(site.call())
    await site.endpoint.has(1)
    call.cancel()
    while (await site.counts())["inflight"]:
        await asyncio.wait((call,), timeout=0.01)

    assert (await site.control("prepare"))["report"]["ready"]


async def test_an_endpoint_that_is_gone_or_broken(site: Site) -> None:
    """The caller gets an answer that says so, and its own errors pass unchanged."""
    site.endpoint.reply = JSONResponse({"error": "no credit"}, 402)
    assert (402, {"error": "no credit"}) == await site.call()
    site.changes = {"max_reply_bytes": 1_000}
    site.start()
    site.endpoint.reply = Response(b"x" * 10_000)
    assert 502 == (await site.call())[0]
    site.deployment.stop("endpoint")
    status, refused = await site.call()

    assert (502, True) == (status, refused["detail"].startswith("the endpoint: "))
    assert 0 == (await site.counts())["inflight"]


async def test_a_large_reply_passes(site: Site) -> None:
    """Ten megabytes are not too many."""
    site.endpoint.reply = JSONResponse({"text": "x" * 10**7})

    assert 10**7 == len((await site.call())[1]["text"])


async def test_the_ledger_survives_a_crash(site: Site) -> None:
    """A restore gives the rows to the next attempt, stamped with the one they are of."""
    site.ledger.append("r", row())
    await site.control("prepare")
    where: dict[str, Any] = {"checkpoint_dir": str(site.root), "episode_ids": [R0]}
    committed = await site.control("commit", **where)
    assert ["staged/call-1"] == committed["staging_keys"]
    await site.control("resume")
    site.ledger.append("r", row("call-of-the-dead"))
    site.start()
    restored = await site.control("restore", "r1", **where)
    await site.control("resume", "r1")

    assert ["r-a1"] == restored["restored"]
    (kept,) = site.ledger.rows("r-a1")
    assert attrs.evolve(row(), capture_key="r") == kept
    assert 410 == (await site.manifest("r"))[0]


async def test_a_commit_without_scope_is_refused(site: Site) -> None:
    """Rows of calls mean nothing without their episodes."""
    await site.control("prepare")
    body = {
        "checkpoint_id": "c1",
        "deadline_ts": time.time() + 10,
        "checkpoint_dir": str(site.root),
    }
    status, refused = await site.deployment.post(
        "model",
        "/ng-control/v1/checkpoint/commit",
        body,
        Authorization=f"Bearer {TOKEN}",
    )

    assert (409, "checkpoint_error") == (status, refused["error"]["code"])


async def test_a_restore_after_a_call_is_refused(site: Site) -> None:
    """The ledger of a process that has served may have been added to."""
    await site.control("prepare")
    where: dict[str, Any] = {"checkpoint_dir": str(site.root), "episode_ids": [R0]}
    await site.control("commit", **where)
    await site.control("resume")
    await site.call()
    body = {"checkpoint_id": "r1", "deadline_ts": time.time() + 10, **where}
    status, refused = await site.deployment.post(
        "model",
        "/ng-control/v1/checkpoint/restore",
        body,
        Authorization=f"Bearer {TOKEN}",
    )

    assert (409, "checkpoint_error") == (status, refused["error"]["code"])


async def test_the_routes_of_the_ledger(site: Site) -> None:
    """A manifest, a retire, a delete: each says what there was."""
    site.ledger.append("r", row())
    status, manifest = await site.manifest("r")
    assert (200, "r") == (status, manifest["rollout_id"])
    gone = {"removed": ["r"], "absent": ["s"]}
    assert (200, gone) == await site.rollouts("retire", ["r", "s", "r"])
    assert "is retired" in (await site.manifest("r"))[1]["detail"]

    gone = {"removed": [], "absent": ["r"]}
    assert (200, gone) == await site.rollouts("delete", ["r"])
    assert (200, []) == ((now := await site.manifest("r"))[0], now[1]["records"])


BATCHES = {
    "none": [],
    "too many": [f"r{n}" for n in range(4_097)],
    "one bad": ["r", "a/b"],
    "a string": "r",
    "a number": [1],
}


@pytest.mark.parametrize("ids", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("what", ["retire", "delete"])
async def test_batches_that_are_refused(site: Site, what: str, ids: Any) -> None:
    """One bad key refuses all, and nothing is removed."""
    site.ledger.append("r", row())
    status, refused = await site.rollouts(what, ids)

    assert (400, ["detail"]) == (status, [*refused])
    assert (row(),) == site.ledger.rows("r")


async def test_the_routes_of_the_ledger_need_the_token(site: Site) -> None:
    """Without it nothing is read or removed."""
    site.ledger.append("r", row())

    assert 401 == (await site.rollouts("retire", ["r"], "another"))[0]
    assert 401 == (await site.manifest("r", "another"))[0]
    assert (row(),) == site.ledger.rows("r")


async def test_a_bad_key_of_a_manifest(site: Site) -> None:
    """It is refused before a file is looked for."""
    status, refused = await site.manifest("r%20x")

    assert (400, True) == (status, "r x" in refused["detail"])


async def test_no_removal_while_a_checkpoint_is_open(site: Site) -> None:
    """A commit still reads the ledgers; after the resume it goes."""
    site.ledger.append("r", row())
    await site.control("prepare")
    assert 409 == (await site.rollouts("retire", ["r"]))[0]
    assert 409 == (await site.rollouts("delete", ["r"]))[0]
    await site.control("resume")

    assert 200 == (await site.rollouts("retire", ["r"]))[0]


async def test_a_model_without_a_ledger(site: Site) -> None:
    """Its routes say so; a checkpoint of it has no records."""
    site.changes = {"ledger_dir": None}
    site.start()
    assert 404 == (await site.rollouts("retire", ["r"]))[0]
    await site.control("prepare")
    where: dict[str, Any] = {"checkpoint_dir": str(site.root), "episode_ids": [R0]}
    committed = await site.control("commit", **where)
    await site.control("resume")
    site.start()
    restored = await site.control("restore", "r1", **where)

    assert ([], []) == (committed["episode_ids"], restored["restored"])


async def test_calls_are_captured(site: Site) -> None:
    """Each has a row, the second one continues the first, and the agent sees no traces."""
    staging = site.capture()
    status, reply = await site.call("r", CHAT, "Hello")
    assert (200, False) == (status, COORDS_MEMBER in reply)
    await site.call("r", CHAT, "Hello", "1", "Go on")
    first, second = site.ledger.rows("r")

    assert isinstance(first, CommittedRow)
    assert isinstance(second, CommittedRow)
    assert (None, first.model_call_id) == (first.parent_call_id, second.parent_call_id)
    assert ("text", "token_in") == (first.mode, second.mode)
    assert {*(second.staging_chain or ())} == staging.calls.keys()
    assert ("resp_1", "resp_2") == (first.response_id, second.response_id)
    assert (None, 2) == (site.endpoint.captured[0]["prev_len"] or None, second.prev_len)
    status, manifest = await site.manifest("r")
    assert (2, []) == (len(manifest["records"]), manifest["failures"])


async def test_calls_of_nobody_are_not_captured(site: Site) -> None:
    """Without a prefix, in a form without items, as a stream, or without JSON."""
    site.capture()
    await site.call("", CHAT, "Hello")
    await site.call("r", "/v1/messages", "Hello")
    bodies: list[Any] = [{"messages": [], "stream": True}, {"prompt": "Hello"}, []]
    for body in bodies:
        await site.deployment.post("model", f"/ng-rollout/r{CHAT}", body)

    assert () == site.ledger.rows("r")


async def test_a_call_that_continues_nothing_known(site: Site) -> None:
    """It is answered, not captured, and its row says why."""
    site.capture()
    await site.call("r", CHAT, "Hello")
    assert 200 == (await site.call("r", CHAT, "Hello", "never said", "Go on"))[0]

    assert site.endpoint.captured[1] is None
    failure = site.ledger.rows("r")[1]
    assert isinstance(failure, FailureRow)
    assert "no call of this rollout" in failure.failure_reason


LIES: dict[str, Any] = {
    "nothing": None,
    "no object": "staged",
    "an unknown member": {"colour": "red"},
    "another call": {
        "schema_version": 1,
        "disposition": "capture_failed",
        "rollout_id": "s",
        "model_call_id": "x",
    },
}


@pytest.mark.parametrize("told", LIES.values(), ids=LIES)
async def test_a_worker_that_is_wrong(site: Site, told: Any) -> None:
    """The reply comes, and the row is a failure."""
    site.capture()
    site.endpoint.lies = {COORDS_MEMBER: told}
    assert 200 == (await site.call("r", CHAT, "Hello"))[0]

    (failure,) = site.ledger.rows("r")
    assert isinstance(failure, FailureRow)


async def test_an_undelivered_call_is_not_in_a_checkpoint(site: Site) -> None:
    """Its row is left out, and after the restore the call is made again, as a root."""
    site.capture()
    site.endpoint.may_reply.clear()
    call = asyncio.create_task(site.call("r", CHAT, "Hello"))
    await site.endpoint.has(1)
    await site.control("prepare")
    site.endpoint.may_reply.set()
    while not site.ledger.rows("r"):
        await asyncio.wait((call,), timeout=0.01)
    where: dict[str, Any] = {"checkpoint_dir": str(site.root), "episode_ids": [R0]}
    committed = await site.control("commit", **where)
    call.cancel()
    site.start()
    await site.control("restore", "r1", **where)
    await site.control("resume", "r1")
    await site.call("r-a1", CHAT, "Hello")

    assert [] == committed["staging_keys"]
    (again,) = site.ledger.rows("r-a1")
    assert isinstance(again, CommittedRow)
    assert ("resp_2", "text") == (again.response_id, again.mode)


async def test_a_restored_call_is_continued(site: Site) -> None:
    """The next attempt's first call is a child of a call of the attempt before."""
    site.capture()
    await site.call("r", CHAT, "Hello")
    await site.control("prepare")
    where: dict[str, Any] = {"checkpoint_dir": str(site.root), "episode_ids": [R0]}
    await site.control("commit", **where)
    site.start()
    await site.control("restore", "r1", **where)
    await site.control("resume", "r1")
    await site.call("r-a1", CHAT, "Hello", "1", "Go on")
    before, after = site.ledger.rows("r-a1")

    assert isinstance(before, CommittedRow)
    assert isinstance(after, CommittedRow)
    assert ("r", before.model_call_id) == (before.capture_key, after.parent_call_id)


async def test_a_ledger_that_is_damaged(site: Site) -> None:
    """The call is answered all the same."""
    site.capture()
    (site.root / "ledger" / "r.lineage.jsonl").write_bytes(b"no row\n")

    assert 200 == (await site.call("r", CHAT, "Hello"))[0]
    assert [None] == site.endpoint.captured


async def test_a_row_that_cannot_be_written(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call is answered all the same; what is lost is a row."""
    site.capture()
    await site.call("r", CHAT, "Hello")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ipistate.storage.ledger._append", full)
    assert 200 == (await site.call("r", CHAT, "Hello", "1", "Go on"))[0]

    assert 1 == len(site.ledger.rows("r"))
