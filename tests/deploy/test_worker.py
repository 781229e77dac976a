"""An inference worker: what it stages, how it cuts, and how a call goes on after a cut."""

from __future__ import annotations

import asyncio
import json

from pathlib import Path
from typing import Any

import attrs
import pytest

from loopback import Loopback
from scripted_engine import ScriptedEngine
from starlette.datastructures import Secret
from tests.deploy.conftest import BOUNDS

from ipistate.capture import (
    ActiveCall,
    CaptureAdmission,
    CommitCoords,
    CutContinuation,
    CutInventory,
    CutReceipt,
    checked_receipt,
)
from ipistate.clients import HttpClient
from ipistate.deploy import WorkerSettings, create_worker_app
from ipistate.kernel import freeze, structure, unstructure
from ipistate.storage import TokenStore


pytestmark = pytest.mark.anyio

ASKED = [{"role": "user", "content": "Count"}]
WORDS = "one two three four five six "


@attrs.define(eq=False)
class Workers:
    """A store, and workers in front of it that come one after another."""

    root: Path
    hosts: Loopback
    client: HttpClient
    engine: ScriptedEngine = attrs.field(factory=ScriptedEngine)

    @property
    def store(self) -> TokenStore:
        """The staged calls."""
        return TokenStore(self.root)

    def start(self, token: str | None = "t") -> None:
        """Put a fresh process in the place of the one that is there."""
        settings = WorkerSettings(
            token_store=self.root, cut_token=None if token is None else Secret(token)
        )
        self.hosts.hosts["worker"] = create_worker_app(settings, self.engine)

    async def post(self, path: str, body: Any, token: str = "t") -> tuple[int, Any]:
        """Send a body, and read the answer."""
        answer = await self.client.send(
            "POST",
            "http://worker",
            path,
            json.dumps(body).encode(),
            bounds=BOUNDS,
            headers={
                "Content-Type": "application/json",
                "Authorization": f"Bearer {token}",
            },
        )
        return answer.status, json.loads(answer.content)

    async def chat(self, told: CaptureAdmission | None, **more: Any) -> Any:
        """Complete a chat, and return the reply."""
        body = {"messages": ASKED, "max_tokens": 20, **more}
        if told is not None:
            body["ng_capture"] = unstructure(told)
        status, reply = await self.post("/v1/chat/completions", body)
        assert 200 == status, reply
        return reply

    async def cut(self, *calls: ActiveCall) -> CutReceipt:
        """Cut calls."""
        inventory = CutInventory.of("c1", "policy_model", calls)
        path = "/ng-control/v1/generation-cut"
        status, receipt = await self.post(path, unstructure(inventory))
        assert 200 == status, receipt
        found = structure(freeze(receipt), CutReceipt)
        checked_receipt(inventory, found)
        return found


@pytest.fixture
async def workers(tmp_path: Path) -> Any:
    """Start a worker."""
    async with Loopback({}) as hosts, HttpClient(resolver=hosts) as client:
        workers = Workers(tmp_path / "tokens", hosts, client)
        workers.start()
        yield workers


def root(call: str = "c1", cut: CutContinuation | None = None) -> CaptureAdmission:
    """Return the admission of a rollout's first call."""
    return CaptureAdmission(rollout_id="r", model_call_id=call, generation_cut=cut)


def active(call: str = "c1", rollout: str = "r") -> ActiveCall:
    """Return a call of an inventory."""
    return ActiveCall(
        ticket_id=f"t-{call}",
        rollout_id=rollout,
        attempt=0,
        model_call_id=call,
        admitted_at=1.0,
    )


def said(reply: Any) -> str:
    """Return what a reply says."""
    text: str = reply["choices"][0]["message"]["content"]
    return text


def coords(reply: Any) -> CommitCoords:
    """Return where a reply's call is staged."""
    return structure(freeze(reply["ng_commit_coords"]), CommitCoords)


async def cut_at(workers: Workers, words: int) -> CutContinuation:
    """Cut the first call when it has so many words, and let its worker die."""
    workers.engine.holds_at = words
    call = asyncio.create_task(workers.chat(root()))
    await workers.engine.has_begun()
    await workers.engine.has_made(words)
    (found,) = (await workers.cut(active())).prefixes
    call.cancel()
    workers.engine = ScriptedEngine()
    workers.engine.known = [*workers.engine.known]
    workers.start()
    assert found.continuation is not None
    return found.continuation


async def test_a_request_that_is_too_long(workers: Workers) -> None:
    """It is refused, and the engine does not hear of it."""
    settings = WorkerSettings(token_store=workers.root, max_body_bytes=100)
    workers.hosts.hosts["worker"] = create_worker_app(settings, workers.engine)
    path, body = "/v1/chat/completions", b'{"messages": []}' + b" " * 100
    answer = await workers.client.send(
        "POST", "http://worker", path, body, bounds=BOUNDS
    )

    assert (413, []) == (answer.status, workers.engine.drawings)


async def test_a_call_without_capture(workers: Workers) -> None:
    """It is completed, and nothing is staged."""
    reply = await workers.chat(None)

    assert (WORDS, "stop") == (said(reply), reply["choices"][0]["finish_reason"])
    assert "ng_commit_coords" not in reply
    assert [] == [*workers.root.iterdir()]


async def test_a_root_and_its_child_are_staged(workers: Workers) -> None:
    """The child has only its own tokens, after those that the chain names."""
    first = coords(await workers.chat(root()))
    assert first.staging_key is not None
    child = CaptureAdmission(
        rollout_id="r",
        model_call_id="c2",
        parent_call_id="c1",
        prev_len=first.cum_len,
        mode="token_in",
        staging_chain=(first.staging_key,),
        parent_chain_hash=first.chain_hash,
    )
    messages = [
        *ASKED,
        {"role": "assistant", "content": WORDS.strip()},
        {"role": "user", "content": "Again"},
    ]
    second = coords(await workers.chat(child, messages=messages))

    staged = workers.store.get(first.staging_key)
    assert (6.0, -3.0) == (sum(staged.mask), sum(staged.logprobs))
    assert ("committed", first.cum_len) == (second.disposition, second.prev_len)
    inline = attrs.evolve(
        child,
        model_call_id="c3",
        staging_chain=None,
        required_prefix_token_ids=staged.tokens,
    )
    third = coords(await workers.chat(inline, messages=messages))
    assert second.cumulative_hash == third.cumulative_hash


@pytest.mark.parametrize("words", range(6))
async def test_a_call_goes_on_after_a_cut(workers: Workers, words: int) -> None:
    """Wherever it was cut, it comes to the tokens and the text of one that was not."""
    uncut = coords(await workers.chat(root("c0")))
    known = workers.engine.known
    workers.engine.made = 0
    workers.engine.drawings.clear()
    cut = await cut_at(workers, words)
    assert words == cut.prefix_token_count
    workers.engine.known = known
    reply = await workers.chat(root("c2", cut))

    assert WORDS == said(reply)
    assert 6 - words == workers.engine.made
    assert uncut.cumulative_hash == coords(reply).cumulative_hash


async def test_a_cut_does_not_stop_a_call(workers: Workers) -> None:
    """It is cut twice on its way, and says all its words to whoever waits for it."""
    workers.engine.holds_at = 2
    call = asyncio.create_task(workers.chat(root()))
    await workers.engine.has_made(2)
    receipts = [await workers.cut(active()) for _ in range(2)]
    workers.engine.goes_on.set()

    assert WORDS == said(await call)
    first, again = (one.prefixes[0] for one in receipts)
    assert (2, first.prefix_digest) == (again.prefix_token_count, again.prefix_digest)
    (ended,) = (await workers.cut(active())).prefixes
    assert ("terminal_completion", "stop", 6) == (
        ended.cut_kind,
        ended.terminal_finish_reason,
        ended.prefix_token_count,
    )
    workers.engine.made = 0
    reply = await workers.chat(root("c2", ended.continuation))
    assert (WORDS, 0) == (said(reply), workers.engine.made)


async def test_the_budget_is_that_of_the_whole_call(workers: Workers) -> None:
    """What was generated before the cut counts, whatever the request says again."""
    workers.engine.holds_at = 2
    call = asyncio.create_task(workers.chat(root(), max_tokens=4))
    await workers.engine.has_made(2)
    (found,) = (await workers.cut(active())).prefixes
    call.cancel()
    workers.engine.holds_at = None
    reply = await workers.chat(root("c2", found.continuation), max_tokens=100)

    assert "one two three four " == said(reply)
    assert "length" == reply["choices"][0]["finish_reason"]


async def test_what_cannot_be_cut(workers: Workers) -> None:
    """Calls that are not known, that are constrained, or that are not captured."""
    workers.engine.holds_at = 1
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    choice = {"type": "function", "function": {"name": "f"}}
    call = asyncio.create_task(workers.chat(root(), tools=[tool], tool_choice=choice))
    await workers.engine.has_made(1)
    receipt = await workers.cut(active(), active("nobody's"))
    workers.engine.goes_on.set()
    message = (await call)["choices"][0]["message"]

    assert {"durable_failure"} == {one.disposition for one in receipt.prefixes}
    assert (None, "f") == (
        message["content"],
        message["tool_calls"][0]["function"]["name"],
    )
    assert {"additionalProperties": False} == workers.engine.drawings[0].schema


async def test_a_call_of_a_tool_is_continued(workers: Workers) -> None:
    """What the model has said of it comes before the next turn, token by token."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    choice = {"type": "function", "function": {"name": "f"}}
    named: dict[str, Any] = {"tools": [tool], "tool_choice": choice}
    reply = await workers.chat(root(), **named)
    first = coords(reply)
    assert first.staging_key is not None
    child = CaptureAdmission(
        rollout_id="r",
        model_call_id="c2",
        parent_call_id="c1",
        prev_len=first.cum_len,
        mode="token_in",
        staging_chain=(first.staging_key,),
        parent_chain_hash=first.chain_hash,
    )
    answer = {"role": "tool", "tool_call_id": "x", "content": "Done"}
    messages = [*ASKED, reply["choices"][0]["message"], answer]
    second = await workers.chat(child, messages=messages, **named)

    assert "committed" == coords(second).disposition


def foreign(cut: CutContinuation, **changes: Any) -> CutContinuation:
    """Return a cut of something else."""
    return attrs.evolve(cut, **changes)


FOREIGN: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "another rollout's": ({"source_capture_key": "s"}, {}, "foreign_cut"),
    "another call's": ({"source_model_call_id": "c9"}, {}, "foreign_cut"),
    "another digest": ({"prefix_digest": "0" * 64}, {}, "foreign_cut"),
    "a shorter prefix": ({"prefix_token_count": 1}, {}, "foreign_cut"),
    "a key that is not there": (
        {"staging_keys": ("nowhere",)},
        {},
        "token_entry_missing",
    ),
    "newer weights": ({}, {"weight_version": 0}, "newer_weights"),
}


@pytest.mark.parametrize(("changes", "engine", "code"), FOREIGN.values(), ids=FOREIGN)
async def test_a_cut_that_is_not_this_call_s(
    workers: Workers, changes: dict[str, Any], engine: dict[str, Any], code: str
) -> None:
    """The call starts over and is answered; its coordinates say why it is not captured."""
    cut = await cut_at(workers, 3)
    for name, value in engine.items():
        setattr(workers.engine, name, value)
    reply = await workers.chat(root("c2", foreign(cut, **changes)))

    assert WORDS == said(reply)
    assert "capture_failed" == coords(reply).disposition
    assert code in (coords(reply).failure_reason or "")


@pytest.mark.parametrize("damage", [b"", b"{}", None])
async def test_a_damaged_store(workers: Workers, damage: bytes | None) -> None:
    """An entry that is damaged is never continued from; the call starts over."""
    cut = await cut_at(workers, 3)
    (entry,) = workers.root.iterdir()
    data = entry.read_bytes()
    entry.write_bytes(
        data.replace(b'"weight_version":1', b'"weight_version":0')
        if damage is None
        else damage
    )
    reply = await workers.chat(root("c2", cut))

    assert WORDS == said(reply)
    assert "token_entry_damaged" in (coords(reply).failure_reason or "")


async def test_a_full_store(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call is answered, and says that it is not captured; a cut fails alone."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ipistate.storage.token_store.write_atomically", full)
    reply = await workers.chat(root())
    (found,) = (await workers.cut(active())).prefixes

    assert (WORDS, "durable_failure") == (said(reply), found.disposition)
    assert "No space" in (coords(reply).failure_reason or "")


async def test_an_admission_that_contradicts_itself(workers: Workers) -> None:
    """The call is answered; what is wrong with its capture stands in the coordinates."""
    body = {
        "messages": ASKED,
        "ng_capture": {**unstructure(root()), "prev_len": 4},
    }
    status, reply = await workers.post("/v1/chat/completions", body)

    assert (200, "capture_failed") == (status, coords(reply).disposition)
    assert "invalid_admission" in (coords(reply).failure_reason or "")


async def test_who_may_cut(workers: Workers) -> None:
    """Only who has the token; without one there is no such route."""
    inventory = unstructure(CutInventory.of("c1", "m", ()))
    path = "/ng-control/v1/generation-cut"
    assert 401 == (await workers.post(path, inventory, "another"))[0]
    status, refused = await workers.post(path, {**inventory, "inventory_digest": "x"})
    assert (400, "invalid_inventory") == (status, refused["error"]["code"])
    workers.start(token=None)
    answer = await workers.client.send(
        "POST", "http://worker", path, b"{}", bounds=BOUNDS
    )

    assert 404 == answer.status


async def test_a_stream_is_refused(workers: Workers) -> None:
    """With a code, before anything is generated."""
    body = {"messages": ASKED, "stream": True}
    status, refused = await workers.post("/v1/chat/completions", body)

    assert (400, "stream_refused", 0) == (
        status,
        refused["error"]["code"],
        workers.engine.made,
    )
