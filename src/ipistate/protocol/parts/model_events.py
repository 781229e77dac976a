"""What a policy model's shell and its part tell each other about calls and the ledger."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ipistate.capture import LedgerRow
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
    """The call's tokens are captured under this id."""

    request: int
    model_call_id: str


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
