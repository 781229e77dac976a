"""What a policy model's shell and its part tell each other about calls and the ledger."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ipistate.capture import ActiveCall, CutContinuation, LedgerRow
from ipistate.protocol.actions import PartAction
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.events import PartEvent


@attrs.frozen
class CallArrived(PartEvent):
    """A call of the model has arrived; answered by ``Admit`` or ``Refuse``.

    While a checkpoint is open it waits. ``episode`` is the prefix's, None without one.
    """

    request: int
    episode: EpisodeId | None = None


@attrs.frozen
class CallCaptured(PartEvent):
    """The call's tokens are captured under this id.

    ``request_digest`` names what is asked, for a cut; None for a call that is not cut.
    ``claims_cut`` tells that it goes on after the restored cut of its attempt.
    """

    request: int
    model_call_id: str
    request_digest: str | None = None
    admitted_at: float = 0.0
    claims_cut: bool = False


@attrs.frozen
class CutsEnded(PartEvent):
    """A round of cuts is over; calls that are not in it were not cut."""

    round: int
    cuts: Mapping[int, CutContinuation]
    """By the request of the call."""


@attrs.frozen
class ResponseReady(PartEvent):
    """The response could start; answered by ``StartResponse``, if need be after resume."""

    request: int


@attrs.frozen
class CallEnded(PartEvent):
    """The call is over: its response has been sent, it failed, or its client left."""

    request: int


@attrs.frozen
class StartResponse(PartAction):
    """Send the response of a call."""

    request: int


@attrs.frozen
class CancelCall(PartAction):
    """Cancel a call, whose attempt was retired. Said once; answered by ``CallEnded``."""

    request: int


@attrs.frozen
class CutCalls(PartAction):
    """Have calls cut, if that can be in time; answered by ``CutsEnded``."""

    round: int
    calls: Mapping[int, ActiveCall]
    """By the request of the call."""
    until: float
    """When the round is to be over, in seconds since the epoch."""


@attrs.frozen
class ImportLedger(PartAction):
    """Replace ledgers, then retire others; answered by ``Installed``."""

    read: int
    ledgers: Mapping[str, tuple[LedgerRow, ...]]
    """By capture key; an empty one removes what is there."""
    retired: tuple[str, ...]
    """Capture keys whose execution is over."""


@attrs.frozen
class RetireLedger(PartAction):
    """Retire the ledgers of these capture keys; answered by ``Freed``."""

    removal: int
    keys: tuple[str, ...]
