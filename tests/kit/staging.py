"""A worker's side of capturing, without an engine: every item of a conversation is a token.

It is on the path of the tests: ``import staging``.
"""

from __future__ import annotations

import zlib

from collections.abc import Sequence
from typing import Any

from ipistate.capture import (
    CAPTURE_MEMBER,
    COORDS_MEMBER,
    CaptureAdmission,
    CommitCoords,
    StagedCall,
    chain_hash,
    conversation_digest,
    cumulative_hash,
    request_items,
)
from ipistate.kernel import JsonObject, structure, unstructure


def token(item: JsonObject) -> int:
    """Return the token that an item is."""
    return zlib.crc32(conversation_digest([item]).encode())


class Staging:
    """Stages calls in memory; entries stay when everybody else has died."""

    def __init__(self) -> None:
        self.calls: dict[str, StagedCall] = {}

    def captured(self, body: JsonObject, reply: JsonObject) -> JsonObject:
        """Stage a call if its request wants it, and put the coordinates into the reply."""
        told: Any = body.get(CAPTURE_MEMBER)
        if told is None:
            return reply
        admission = structure(told, CaptureAdmission)
        coords = self.staged(admission, request_items(body), reply)
        return JsonObject({**reply, COORDS_MEMBER: unstructure(coords)})

    def staged(
        self,
        admission: CaptureAdmission,
        items: Sequence[JsonObject],
        reply: JsonObject,
    ) -> CommitCoords:
        """Stage a call."""
        output: Any = reply["output"]
        every = tuple(map(token, (*items, *output)))
        delta = every[admission.prev_len :]
        parent = admission.parent_chain_hash
        before = None if parent is None else bytes.fromhex(parent)
        made = len(output)
        call = StagedCall(
            rollout_id=admission.rollout_id,
            model_call_id=admission.model_call_id,
            parent_call_id=admission.parent_call_id,
            mode=admission.mode,
            prev_len=admission.prev_len,
            tokens=delta,
            mask=(0.0,) * (len(delta) - made) + (1.0,) * made,
            logprobs=(0.0,) * len(delta),
            weight_version=1,
            chain_hash=chain_hash(before, delta),
            cumulative_hash=cumulative_hash(every),
        )
        key = f"{admission.rollout_id}/{admission.model_call_id}"
        self.calls[key] = call
        return CommitCoords.of(key, call)
