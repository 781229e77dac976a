"""Capturing the calls of a policy model: what is asked of its worker, and the ledger's rows.

A capture that fails leaves a row that says so, and never fails the call. See
docs/reference/control-plane.md, section 6.
"""

from __future__ import annotations

import asyncio
import logging

from typing import TYPE_CHECKING, Final
from uuid import uuid4

import attrs

from ipistate.capture import (
    CAPTURE_MEMBER,
    COORDS_MEMBER,
    CapturedCall,
    CommitCoords,
    FailureRow,
    Unresolved,
    admission_of,
    conversation_digest,
    is_constrained,
    lineage_of,
    reply_items,
    request_items,
)
from ipistate.errors import IpiStateError
from ipistate.kernel import JsonObject, decode, encode, structure, unstructure
from ipistate.protocol import CallCaptured


if TYPE_CHECKING:
    from collections.abc import Callable

    from ipistate.capture import GenerationCutRecord, LedgerRow
    from ipistate.storage import CaptureLedger

_log: Final = logging.getLogger("ipistate.deploy.capture")


class CallCapture:
    """Captures calls into a ledger.

    Args:
        ledger: Has the rows.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        ledger: CaptureLedger,
        clock: Callable[[], float],
        *,
        can_cut: bool = False,
    ) -> None:
        self._can_cut = can_cut
        self._ledger = ledger
        self._clock = clock

    async def begin(
        self, key: str, content: bytes, cut: GenerationCutRecord | None = None
    ) -> Capturing | None:
        """Find out what a call continues; None for one that cannot be captured.

        Args:
            key: The capture key.
            content: The request.
            cut: Restored for the attempt; a call that asks the same goes on after it.
        """
        try:
            body = decode(content)
            if not isinstance(body, JsonObject) or body.get("stream"):
                return None
            items = request_items(body)
        except IpiStateError:
            return None  # the endpoint will say what is wrong with it
        call = uuid4().hex
        rows = await asyncio.to_thread(self._ledger.rows, key)
        lineage = lineage_of(items, rows)
        if isinstance(lineage, Unresolved):
            row = FailureRow(model_call_id=call, failure_reason=lineage.reason)
            await self._keep(key, row)
            return None
        digest = None if is_constrained(body) else conversation_digest(items)
        claimed = cut if cut is not None and cut.request_digest == digest else None
        goes_on = None if claimed is None else claimed.continuation
        captured = CapturedCall(
            admission=admission_of(lineage, key, call, goes_on),
            items=items,
            lineage=lineage,
            admitted_at=self._clock(),
        )
        told = unstructure(captured.admission)
        return Capturing(
            capture=self,
            key=key,
            call=captured,
            content=encode(JsonObject({**body, CAPTURE_MEMBER: told})),
            request_digest=digest if self._can_cut else None,
            claims_cut=claimed is not None,
        )

    async def _keep(self, key: str, row: LedgerRow) -> None:
        # The reply waits for it: what an agent has been told must be in the ledger.
        try:
            await asyncio.to_thread(self._ledger.append, key, row)
        except (OSError, IpiStateError) as error:
            _log.error("row of call %s lost: %s", row.model_call_id, error)

    async def end(self, capturing: Capturing, content: bytes) -> bytes:
        """Keep the row of a call, and return its reply without the coordinates."""
        try:
            reply = decode(content)
        except IpiStateError:
            reply = None
        if not isinstance(reply, JsonObject):
            return content
        await self._keep(capturing.key, capturing.row(reply))
        rest = {n: one for n, one in reply.items() if n != COORDS_MEMBER}
        return encode(JsonObject(rest))


@attrs.frozen
class Capturing:
    """A call that is being captured."""

    capture: CallCapture
    key: str
    call: CapturedCall
    content: bytes
    """What the endpoint is asked."""
    request_digest: str | None
    """Names what is asked; None for a call that is not cut."""
    claims_cut: bool

    def event(self, request: int) -> CallCaptured:
        """Tell the machine of it."""
        return CallCaptured(
            request,
            self.model_call_id,
            self.request_digest,
            self.call.admitted_at,
            self.claims_cut,
        )

    @property
    def model_call_id(self) -> str:
        """The call's id in the ledger."""
        return self.call.admission.model_call_id

    def row(self, reply: JsonObject) -> LedgerRow:
        """Write the row of the call."""
        found = reply.get(COORDS_MEMBER)
        if found is None:
            reason = "the worker has not said where it staged the call"
            return self._failed(reason)
        try:
            coords = structure(found, CommitCoords)
        except IpiStateError as error:
            return self._failed(f"the worker's coordinates: {error}")
        name = reply.get("id")
        given = name if isinstance(name, str) else None
        return self.call.row(coords, reply_items(reply), given)

    def _failed(self, reason: str) -> FailureRow:
        return FailureRow(model_call_id=self.model_call_id, failure_reason=reason)

    async def end(self, content: bytes) -> bytes:
        """Keep the row, and return the reply as the agent gets it."""
        return await self.capture.end(self, content)
