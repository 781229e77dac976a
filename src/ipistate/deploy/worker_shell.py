"""The shell of an inference worker: calls that run, their tokens, and their cuts.

See docs/reference/control-plane.md, section 6. A capture that fails never fails a call,
and a cut never stops one.
"""

from __future__ import annotations

import asyncio
import logging

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import uuid4

import attrs

from ipistate.capture import (
    CAPTURE_FAILED,
    CAPTURE_MEMBER,
    COORDS_MEMBER,
    CaptureAdmission,
    CommitCoords,
    CutAcknowledgement,
    CutReceipt,
    Generation,
    continued,
    is_constrained,
)
from ipistate.deploy.worker_engine import (
    LENGTH,
    STOP,
    EngineEnd,
    as_said,
    drawing_of,
    named_tool,
)
from ipistate.errors import IpiStateError, SchemaError
from ipistate.kernel import (
    JsonArray,
    JsonObject,
    structure,
    unstructure,
)


if TYPE_CHECKING:
    from ipistate.capture import ActiveCall, CutInventory
    from ipistate.deploy.worker_engine import Engine
    from ipistate.storage import TokenStore

REMEMBERED: Final = 4_096
"""Calls that have ended and can still be cut, because nobody has their reply yet."""

CallKey: TypeAlias = tuple[str, str]
"""Capture key and id of a call."""

_log: Final = logging.getLogger("ipistate.deploy.worker")


@attrs.define(eq=False)
class RunningCall:
    """A call, with the tokens that it has by now."""

    generation: Generation
    may_be_cut: bool
    finish_reason: str | None = None


class WorkerShell:
    """Completes chat requests, and stages their tokens.

    Args:
        engine: Completes from token ids.
        store: Keeps staged calls.
    """

    def __init__(self, engine: Engine, store: TokenStore) -> None:
        self._engine = engine
        self._store = store
        self._calls: OrderedDict[CallKey, RunningCall] = OrderedDict()

    async def complete(self, body: JsonObject) -> JsonObject:
        """Reply to a chat request.

        Raises:
            EngineFailedError: The engine does not answer.
        """
        text = await self._engine.render(as_said(body))
        call, problem = await self._begun(body, text)
        await self._run(call, body)
        reply = await self._reply(call, body)
        told: Any = body.get(CAPTURE_MEMBER)
        if told is None:
            return reply
        coords = await self._coords(call, told, problem)
        return JsonObject({**reply, COORDS_MEMBER: unstructure(coords)})

    # A call begins

    async def _begun(
        self, body: JsonObject, text: str
    ) -> tuple[RunningCall, str | None]:
        told, problem = body.get(CAPTURE_MEMBER), None
        if told is not None:
            try:
                admission = structure(told, CaptureAdmission)
                generation = await self._generation(admission, body, text)
                cuttable = not is_constrained(body)
                return self._kept(generation, may_be_cut=cuttable), None
            except (IpiStateError, OSError) as error:
                problem = str(error)
                _log.warning("call not captured: %s", problem)
        plain = CaptureAdmission(rollout_id="", model_call_id=uuid4().hex)
        generation = Generation(
            admission=plain,
            prompt=await self._engine.tokens(text),
            output_limit=drawing_of(body).limit,
            weight_version=self._engine.weight_version,
        )
        return RunningCall(generation, may_be_cut=False), problem

    def _kept(self, generation: Generation, *, may_be_cut: bool) -> RunningCall:
        call = RunningCall(generation, may_be_cut=may_be_cut)
        told = generation.admission
        self._calls[told.rollout_id, told.model_call_id] = call
        while len(self._calls) > REMEMBERED:
            self._calls.popitem(last=False)
        return call

    async def _generation(
        self, admission: CaptureAdmission, body: JsonObject, text: str
    ) -> Generation:
        prefix = await self._prefix(admission)
        if admission.generation_cut is not None:
            (key,) = admission.generation_cut.staging_keys
            snapshot = await asyncio.to_thread(self._store.get, key)
            version = self._engine.weight_version
            return continued(admission, prefix, snapshot, version)
        before = await self._engine.text(prefix) if prefix else ""
        if not text.startswith(before):
            # It may have ended with another mark than the template's.
            before = await self._engine.spoken(prefix)
        if not text.startswith(before):
            message = "the conversation does not begin with the tokens before it"
            raise SchemaError("foreign_prefix", message)
        rest = await self._engine.tokens(text[len(before) :])
        return Generation(
            admission=admission,
            prompt=(*prefix, *rest),
            output_limit=drawing_of(body).limit,
            weight_version=self._engine.weight_version,
        )

    async def _prefix(self, admission: CaptureAdmission) -> tuple[int, ...]:
        if admission.required_prefix_token_ids is not None:
            return admission.required_prefix_token_ids
        chain = admission.staging_chain or ()
        staged = await asyncio.to_thread(lambda: [*map(self._store.get, chain)])
        prefix = tuple(token for call in staged for token in call.tokens)
        hashes = [call.chain_hash.hex() for call in staged[-1:]]
        if len(prefix) != admission.prev_len or hashes not in (
            [],
            [admission.parent_chain_hash],
        ):
            message = "the staged tokens are not those of the parent"
            raise SchemaError("foreign_prefix", message)
        return prefix

    # A call runs, and ends

    async def _run(self, call: RunningCall, body: JsonObject) -> None:
        cut = call.generation.admission.generation_cut
        if cut is not None and cut.terminal_finish_reason is not None:
            call.finish_reason = cut.terminal_finish_reason
            return
        call.finish_reason = None
        if not call.generation.left:
            call.finish_reason = LENGTH
            return
        generation = call.generation
        drawing = attrs.evolve(drawing_of(body), limit=generation.left)
        tokens = (*generation.prompt, *generation.generated)
        reason = STOP
        async for step in self._engine.generate(tokens, drawing):
            if isinstance(step, EngineEnd):
                reason = step.reason
            else:
                call.generation = call.generation.extended(step.token, step.logprob)
        call.finish_reason = reason

    async def _coords(
        self, call: RunningCall, told: JsonObject, problem: str | None
    ) -> CommitCoords:
        if problem is None:
            try:
                return await self._staged(call.generation)
            except (IpiStateError, OSError) as error:
                problem = str(error)
                _log.error("call not staged: %s", problem)
        return CommitCoords(
            disposition=CAPTURE_FAILED,
            failure_reason=problem,
            rollout_id=str(told.get("rollout_id")),
            model_call_id=str(told.get("model_call_id")),
        )

    async def _staged(self, generation: Generation) -> CommitCoords:
        key, record = generation.staging_key, generation.staged()
        await asyncio.to_thread(self._store.put, key, record)
        return CommitCoords.of(key, record)

    async def _reply(self, call: RunningCall, body: JsonObject) -> JsonObject:
        generation = call.generation
        # Over the whole, also if another worker has made the beginning.
        text = await self._engine.spoken(generation.generated)
        function = named_tool(body)
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if function is not None:
            called = {"name": function["name"], "arguments": text}
            named = {"id": f"call_{uuid4().hex}", "type": "function"}
            tool_call = JsonObject({**named, "function": JsonObject(called)})
            message |= {"content": None, "tool_calls": JsonArray([tool_call])}
        asked, made = len(generation.prompt), len(generation.generated)
        choice = {
            "index": 0,
            "message": JsonObject(message),
            "finish_reason": call.finish_reason,
        }
        usage = {
            "prompt_tokens": asked,
            "completion_tokens": made,
            "total_tokens": asked + made,
        }
        return JsonObject(
            {
                "id": f"chatcmpl-{generation.admission.model_call_id}",
                "object": "chat.completion",
                "created": 0,
                "model": self._engine.model,
                "choices": JsonArray([JsonObject(choice)]),
                "usage": JsonObject(usage),
            }
        )

    # Cuts

    async def cut(self, inventory: CutInventory) -> CutReceipt:
        """Stage what the named calls have by now, while they go on."""
        acknowledged = [await self._cut(one) for one in inventory.active_prefixes]
        return CutReceipt(
            checkpoint_id=inventory.checkpoint_id,
            cut_id=uuid4().hex,
            inventory_digest=inventory.inventory_digest,
            inventory=inventory,
            backend_snapshot_id=f"weights-{self._engine.weight_version}",
            prefixes=tuple(acknowledged),
        )

    async def _cut(self, asked: ActiveCall) -> CutAcknowledgement:
        call = self._calls.get((asked.capture_key, asked.model_call_id))
        if call is None or not call.may_be_cut:
            return CutAcknowledgement.failed(asked)
        # What it has now: it goes on while this is written.
        generation, reason = call.generation, call.finish_reason
        name, record = generation.cut_key, generation.staged()
        try:
            await asyncio.to_thread(self._store.put, name, record)
        except (IpiStateError, OSError) as error:
            _log.warning("call %s not cut: %s", asked.model_call_id, error)
            return CutAcknowledgement.failed(asked)
        return CutAcknowledgement.of(asked, generation.cut(reason), uuid4().hex)
