"""What a policy model and a worker tell each other when generations are cut.

The inventory names the calls to be cut; the receipt has one acknowledgement for each.
Both are closed objects; see docs/reference/control-plane.md, section 6.
"""

from __future__ import annotations

import json
import re

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final

import attrs

from ipistate.capture.generation_cut import CutContinuation
from ipistate.errors import SchemaError, preview
from ipistate.kernel import JsonValue, unstructure


DURABLE_PREFIX: Final = "durable_prefix"
DURABLE_FAILURE: Final = "durable_failure"
ACTIVE_PREFIX: Final = "active_prefix"
TERMINAL_COMPLETION: Final = "terminal_completion"

FINISH_REASONS: Final = ("stop", "length")

_HEX: Final = re.compile(r"[0-9a-f]{64}")


@attrs.frozen(kw_only=True)
class ActiveCall:
    """A call that has not been delivered."""

    ticket_id: str
    rollout_id: str
    attempt: int
    model_call_id: str
    admitted_at: float

    @property
    def capture_key(self) -> str:
        """The name of the attempt that the call belongs to."""
        return f"{self.rollout_id}-a{self.attempt}" if self.attempt else self.rollout_id


@attrs.frozen(kw_only=True)
class CutInventory:
    """The calls of one worker that are to be cut.

    Raises:
        SchemaError: ``invalid_inventory``: it is not sorted, or its digest is another.
    """

    checkpoint_id: str
    server_name: str
    active_prefixes: tuple[ActiveCall, ...]
    inventory_digest: str

    @classmethod
    def of(
        cls, checkpoint_id: str, server_name: str, calls: Iterable[ActiveCall]
    ) -> CutInventory:
        """Sort calls, and sign the list with its digest."""
        listed = tuple(sorted(calls, key=lambda one: one.ticket_id))
        digest = _inventory_digest(checkpoint_id, server_name, listed)
        return cls(
            checkpoint_id=checkpoint_id,
            server_name=server_name,
            active_prefixes=listed,
            inventory_digest=digest,
        )

    def __attrs_post_init__(self) -> None:
        """Check order and digest."""
        tickets = [one.ticket_id for one in self.active_prefixes]
        if tickets != sorted({*tickets}):
            message = "calls are sorted by their tickets, each once"
            raise SchemaError("invalid_inventory", message, "$.active_prefixes")
        digest = _inventory_digest(
            self.checkpoint_id, self.server_name, self.active_prefixes
        )
        if digest != self.inventory_digest:
            message, shown = "its digest is another", preview(self.inventory_digest)
            raise SchemaError("invalid_inventory", message, "$.inventory_digest", shown)


def _inventory_digest(
    checkpoint_id: str, server_name: str, calls: tuple[ActiveCall, ...]
) -> str:
    document = {
        "active_prefixes": [attrs.asdict(one) for one in calls],
        "checkpoint_id": checkpoint_id,
        "server_name": server_name,
    }
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode("ascii")).hexdigest()


@attrs.frozen(kw_only=True)
class CutAcknowledgement(ActiveCall):
    """What has become of one call: its tokens so far are staged, or they are not.

    Raises:
        SchemaError: ``invalid_acknowledgement``: its members contradict each other.
    """

    disposition: str
    cut_kind: str | None = None
    frozen_buffer_id: str | None = None
    staging_keys: tuple[str, ...] | None = None
    prefix_token_count: int | None = None
    prefix_digest: str | None = None
    effective_output_limit: int | None = None
    terminal_finish_reason: str | None = None
    terminal_stop_reason: JsonValue = None

    @classmethod
    def failed(cls, call: ActiveCall) -> CutAcknowledgement:
        """Say that a call is not cut: it starts over after a crash."""
        return cls(disposition=DURABLE_FAILURE, **attrs.asdict(call))

    @classmethod
    def of(
        cls, call: ActiveCall, cut: CutContinuation, buffer: str
    ) -> CutAcknowledgement:
        """Say where the tokens of a call are staged."""
        ended = cut.terminal_finish_reason is not None
        return cls(
            disposition=DURABLE_PREFIX,
            cut_kind=TERMINAL_COMPLETION if ended else ACTIVE_PREFIX,
            frozen_buffer_id=buffer,
            staging_keys=cut.staging_keys,
            prefix_token_count=cut.prefix_token_count,
            prefix_digest=cut.prefix_digest,
            effective_output_limit=cut.effective_output_limit,
            terminal_finish_reason=cut.terminal_finish_reason,
            terminal_stop_reason=cut.terminal_stop_reason,
            **attrs.asdict(call),
        )

    def __attrs_post_init__(self) -> None:
        """Check what belongs together."""
        problem = self._problem()
        if problem is not None:
            raise SchemaError("invalid_acknowledgement", problem)

    def _problem(self) -> str | None:
        places = (
            self.cut_kind,
            self.frozen_buffer_id,
            self.staging_keys,
            self.prefix_token_count,
            self.prefix_digest,
            self.effective_output_limit,
        )
        ends = (self.terminal_finish_reason, self.terminal_stop_reason)
        if self.disposition == DURABLE_FAILURE:
            has_any = any(one is not None for one in (*places, *ends))
            return "what is not staged has no places" if has_any else None
        if self.disposition != DURABLE_PREFIX:
            return f"a disposition is {DURABLE_PREFIX} or {DURABLE_FAILURE}"
        if any(one is None for one in places):
            return "what is staged has all its places"
        return self._staged_problem()

    def _staged_problem(self) -> str | None:
        keys = self.staging_keys or ()
        if self.cut_kind not in {ACTIVE_PREFIX, TERMINAL_COMPLETION}:
            return f"a cut is {ACTIVE_PREFIX} or {TERMINAL_COMPLETION}"
        if not keys or len({*keys}) != len(keys):
            return "staging keys are there, each once"
        if (self.prefix_token_count or 0) < 0 or (self.effective_output_limit or 0) < 1:
            return "a count is 0 or more, and a limit 1 or more"
        if _HEX.fullmatch(self.prefix_digest or "") is None:
            return "a digest has 64 hex digits"
        if self.terminal_finish_reason not in {None, *FINISH_REASONS}:
            return f"a finish reason is one of {', '.join(FINISH_REASONS)}"
        if self.terminal_stop_reason is None:
            return None
        if self.terminal_finish_reason is None:
            return "a stop reason is that of a call that has finished"
        kind = type(self.terminal_stop_reason)
        return None if kind in {str, int} else "a stop reason is a text or an integer"

    @property
    def continuation(self) -> CutContinuation | None:
        """What another worker needs to go on; None if the call is not cut."""
        if self.disposition == DURABLE_FAILURE:
            return None
        return CutContinuation(
            source_capture_key=self.capture_key,
            source_model_call_id=self.model_call_id,
            staging_keys=self.staging_keys or (),
            prefix_token_count=self.prefix_token_count or 0,
            prefix_digest=self.prefix_digest or "",
            effective_output_limit=self.effective_output_limit or 1,
            terminal_finish_reason=self.terminal_finish_reason,
            terminal_stop_reason=self.terminal_stop_reason,
        )


@attrs.frozen(kw_only=True)
class CutReceipt:
    """The worker's promise that what it acknowledges is durable."""

    checkpoint_id: str
    cut_id: str
    inventory_digest: str
    inventory: CutInventory
    backend_snapshot_id: str
    prefixes: tuple[CutAcknowledgement, ...]


def checked_receipt(
    inventory: CutInventory, receipt: CutReceipt
) -> tuple[CutAcknowledgement, ...]:
    """Check that a receipt answers an inventory, and return its acknowledgements.

    Raises:
        SchemaError: ``foreign_receipt``: it answers another inventory;
            ``incomplete_receipt``: a call is missing, there twice, or not of this
            inventory.
    """
    mine = unstructure(inventory)
    if unstructure(receipt.inventory) != mine or (
        receipt.inventory_digest,
        receipt.checkpoint_id,
    ) != (inventory.inventory_digest, inventory.checkpoint_id):
        message = "the receipt answers another inventory"
        raise SchemaError("foreign_receipt", message)
    asked = sorted(map(_identity, inventory.active_prefixes))
    if asked != sorted(map(_identity, receipt.prefixes)):
        message = "the receipt has one acknowledgement for each call"
        raise SchemaError("incomplete_receipt", message, "$.prefixes")
    return receipt.prefixes


def _identity(one: Any) -> tuple[Any, ...]:
    return tuple(getattr(one, field.name) for field in attrs.fields(ActiveCall))
