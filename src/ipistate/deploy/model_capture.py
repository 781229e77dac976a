"""Capturing the calls of a policy model: what is asked of its worker, and the ledger's rows.

A capture that fails leaves a row that says so, and never fails the call. See
docs/reference/control-plane.md, section 6.
"""

from __future__ import annotations

import asyncio
import logging

from typing import TYPE_CHECKING, Final, TypeVar
from uuid import uuid4

import attrs

from ipistate.capture import (
    CAPTURE_MEMBER,
    COORDS_MEMBER,
    CapturedCall,
    CommitCoords,
    FailureRow,
    Lineage,
    Unresolved,
    admission_of,
    lineage_of,
    reply_items,
    request_items,
)
from ipistate.errors import IpiStateError
from ipistate.kernel import JsonObject, decode, encode, structure, unstructure


if TYPE_CHECKING:
    from collections.abc import Callable

    from ipistate.capture import LedgerRow
    from ipistate.storage import CaptureLedger

T = TypeVar("T")

_log: Final = logging.getLogger("ipistate.deploy.capture")


class CallCapture:
    """Captures calls into a ledger.

    Args:
        ledger: Has the rows.
        clock: Seconds since the epoch.
    """

    def __init__(self, ledger: CaptureLedger, clock: Callable[[], float]) -> None:
        self._ledger = ledger
        self._clock = clock

    async def begin(self, key: str, content: bytes) -> Capturing | None:
        """Find out what a call continues; None for one that cannot be captured."""
        try:
            body = decode(content)
            if not isinstance(body, JsonObject) or body.get("stream"):
                return None
            items = request_items(body)
        except IpiStateError:
            return None  # the endpoint will say what is wrong with it
        call = uuid4().hex
        rows = await _aside(lambda: self._ledger.rows(key))
        lineage = lineage_of(items, rows)
        if isinstance(lineage, Unresolved):
            await self._keep(
                key, FailureRow(model_call_id=call, failure_reason=lineage.reason)
            )
            return None
        return self._capturing(key, call, body, items, lineage)

    def _capturing(
        self,
        key: str,
        call: str,
        body: JsonObject,
        items: tuple[JsonObject, ...],
        lineage: Lineage,
    ) -> Capturing:
        admission = admission_of(lineage, key, call)
        told = unstructure(admission)
        captured = CapturedCall(
            admission=admission,
            items=items,
            lineage=lineage,
            admitted_at=self._clock(),
        )
        asked = encode(JsonObject({**body, CAPTURE_MEMBER: told}))
        return Capturing(self, key, captured, asked)

    async def _keep(self, key: str, row: LedgerRow) -> None:
        # The reply waits for it: what an agent has been told must be in the ledger.
        try:
            await _aside(lambda: self._ledger.append(key, row))
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


async def _aside(work: Callable[[], T]) -> T:
    # In a thread, because it waits for the disk.
    return await asyncio.get_running_loop().run_in_executor(None, work)
