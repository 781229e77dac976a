"""What a policy model and its worker tell each other about the tokens of one call.

The request has ``ng_capture``, the reply ``ng_commit_coords``; both are closed objects.
See docs/reference/control-plane.md, section 6.
"""

from __future__ import annotations

import re

from collections.abc import Sequence
from typing import Any, Final

import attrs

from ipistate.capture.admission import TEXT, TOKEN_IN, Lineage
from ipistate.capture.digests import StagedCall, extras_digest
from ipistate.capture.fingerprints import (
    FINGERPRINT_VERSION,
    assistant_fingerprint,
    conversation_digest,
)
from ipistate.capture.generation_cut import CutContinuation
from ipistate.capture.rows import CommittedRow, FailureRow, LedgerRow
from ipistate.errors import SchemaError
from ipistate.kernel import EMPTY_OBJECT, JsonObject, refuse


CAPTURE_MEMBER: Final = "ng_capture"
COORDS_MEMBER: Final = "ng_commit_coords"

CAPTURE_VERSION: Final = 1
COMMITTED: Final = "committed"
CAPTURE_FAILED: Final = "capture_failed"

_HEX: Final = re.compile(r"[0-9a-f]{64}")


def _check_version(_: object, field: attrs.Attribute[Any], version: int) -> None:
    if version != CAPTURE_VERSION:
        message = f"this version is not known; {CAPTURE_VERSION} is"
        raise refuse("unknown_version", message, version, field)


def _check_hash(_: object, field: attrs.Attribute[Any], text: str | None) -> None:
    if text is not None and _HEX.fullmatch(text) is None:
        raise refuse("invalid_digest", "a digest has 64 hex digits", text, field)


def _check_mode(_: object, field: attrs.Attribute[Any], mode: str) -> None:
    if mode not in {TEXT, TOKEN_IN}:
        message = f"a mode is {TEXT} or {TOKEN_IN}"
        raise refuse("unknown_mode", message, mode, field)


@attrs.frozen(kw_only=True)
class CaptureAdmission:
    """How a worker is to capture a call.

    A root (``text``) has no parent and nothing before it. A child (``token_in``) has a
    parent, its hash, how many tokens come before, and either the staged entries that
    hold them or the tokens themselves.

    Raises:
        SchemaError: ``invalid_admission``, ``unknown_mode``, ``unknown_version`` or
            ``invalid_digest``.
    """

    schema_version: int = attrs.field(default=CAPTURE_VERSION, validator=_check_version)
    rollout_id: str
    """The capture key."""
    model_call_id: str
    parent_call_id: str | None = None
    prev_len: int = 0
    mode: str = attrs.field(default=TEXT, validator=_check_mode)
    required_prefix_token_ids: tuple[int, ...] | None = None
    staging_chain: tuple[str, ...] | None = None
    parent_chain_hash: str | None = attrs.field(default=None, validator=_check_hash)
    generation_cut: CutContinuation | None = None

    def __attrs_post_init__(self) -> None:
        """Check what belongs together."""
        problem = self._root_problem() if self.mode == TEXT else self._child_problem()
        if problem is not None:
            raise SchemaError("invalid_admission", problem)

    def _root_problem(self) -> str | None:
        given = (
            self.parent_call_id,
            self.required_prefix_token_ids,
            self.staging_chain,
            self.parent_chain_hash,
        )
        if self.prev_len or any(one is not None for one in given):
            return "a root has no parent, and no tokens before it"
        return None

    def _child_problem(self) -> str | None:
        if self.parent_call_id is None or self.parent_chain_hash is None:
            return "a child has a parent, and its hash"
        if self.prev_len < 1:
            return "a child has tokens before it"
        inline = self.required_prefix_token_ids
        if (inline is None) == (self.staging_chain is None):
            return "the tokens before a child are staged, or inline"
        if inline is not None and len(inline) != self.prev_len:
            return "there are as many tokens inline as are said to come before"
        return None


def admission_of(
    lineage: Lineage,
    capture_key: str,
    model_call_id: str,
    cut: CutContinuation | None = None,
) -> CaptureAdmission:
    """Say how a call is to be captured that stands there in its rollout's tree."""
    parent = lineage.parent
    if parent is None:
        return CaptureAdmission(
            rollout_id=capture_key, model_call_id=model_call_id, generation_cut=cut
        )
    return CaptureAdmission(
        rollout_id=capture_key,
        model_call_id=model_call_id,
        parent_call_id=parent.model_call_id,
        prev_len=lineage.prev_len,
        mode=lineage.mode,
        staging_chain=lineage.staging_chain,
        parent_chain_hash=parent.chain_hash,
        generation_cut=cut,
    )


@attrs.frozen(kw_only=True)
class CommitCoords:
    """Where a worker has staged a call; after a failure only why it has not.

    Raises:
        SchemaError: ``invalid_coords``, ``unknown_version`` or ``invalid_digest``.
    """

    schema_version: int = attrs.field(default=CAPTURE_VERSION, validator=_check_version)
    disposition: str
    """``committed`` or ``capture_failed``."""
    rollout_id: str
    model_call_id: str
    failure_reason: str | None = None
    staging_key: str | None = None
    weight_version: int | None = None
    prev_len: int = 0
    delta_len: int = 0
    cum_len: int = 0
    staging_digest: str | None = attrs.field(default=None, validator=_check_hash)
    extras_digest: str | None = attrs.field(default=None, validator=_check_hash)
    chain_hash: str | None = attrs.field(default=None, validator=_check_hash)
    cumulative_hash: str | None = attrs.field(default=None, validator=_check_hash)

    @classmethod
    def of(cls, key: str, staged: StagedCall) -> CommitCoords:
        """Say that a call is staged, under this key and without extras."""
        return cls(
            disposition=COMMITTED,
            rollout_id=staged.rollout_id,
            model_call_id=staged.model_call_id,
            staging_key=key,
            weight_version=staged.weight_version,
            prev_len=staged.prev_len,
            delta_len=staged.delta_len,
            cum_len=staged.cum_len,
            staging_digest=staged.digest().hex(),
            extras_digest=extras_digest(EMPTY_OBJECT).hex(),
            chain_hash=staged.chain_hash.hex(),
            cumulative_hash=staged.cumulative_hash.hex(),
        )

    def __attrs_post_init__(self) -> None:
        """Check what belongs together."""
        problem = self._problem()
        if problem is not None:
            raise SchemaError("invalid_coords", problem)

    def _problem(self) -> str | None:
        places = (
            self.staging_key,
            self.weight_version,
            self.staging_digest,
            self.chain_hash,
            self.cumulative_hash,
        )
        if self.disposition == CAPTURE_FAILED:
            staged = self.delta_len or any(one is not None for one in places)
            return "what was not captured is not staged" if staged else None
        if self.disposition != COMMITTED:
            return f"a disposition is {COMMITTED} or {CAPTURE_FAILED}"
        if any(one is None for one in places) or self.failure_reason is not None:
            return "what is committed has all its places, and no failure"
        if self.delta_len < 1 or self.prev_len < 0:
            return "what is committed has tokens"
        if self.cum_len != self.prev_len + self.delta_len:
            return "all tokens are those before and those of the call"
        return None


@attrs.frozen(kw_only=True)
class CapturedCall:
    """A call on its way: what was asked, and how it is captured."""

    admission: CaptureAdmission
    items: tuple[JsonObject, ...]
    """Of the request."""
    lineage: Lineage
    admitted_at: float
    """Seconds since the epoch."""

    def row(
        self, coords: CommitCoords, reply: Sequence[JsonObject], response_id: str | None
    ) -> LedgerRow:
        """Write the ledger's row of a call that has ended.

        Args:
            coords: As the worker has given them.
            reply: What the model has said, as items.
            response_id: Of the endpoint's answer.
        """
        call, problem = self.admission.model_call_id, self._mismatch(coords)
        if problem is not None:
            return FailureRow(model_call_id=call, failure_reason=problem)
        conversation, key = (*self.items, *reply), coords.staging_key
        said = assistant_fingerprint(conversation)
        return CommittedRow(
            model_call_id=call,
            fingerprint=said,
            context_len=len(self.items),
            context_digest=conversation_digest(self.items),
            digest=coords.cumulative_hash or "",
            parent_call_id=self.admission.parent_call_id,
            staging_key=key,
            weight_version=coords.weight_version,
            prev_len=coords.prev_len,
            delta_len=coords.delta_len,
            cum_len=coords.cum_len,
            staging_digest=coords.staging_digest,
            extras_digest=coords.extras_digest,
            mode=self.admission.mode,
            admitted_at=self.admitted_at,
            staging_chain=(*self.lineage.staging_chain, *([key] if key else [])),
            chain_hash=coords.chain_hash,
            cumulative_hash=coords.cumulative_hash,
            response_id=response_id,
            output_fingerprint=assistant_fingerprint(reply),
            continuation_fingerprint=said,
            fingerprint_version=FINGERPRINT_VERSION,
        )

    def _mismatch(self, coords: CommitCoords) -> str | None:
        told = self.admission
        if coords.disposition == CAPTURE_FAILED:
            return coords.failure_reason or "the worker could not capture it"
        if (coords.rollout_id, coords.model_call_id) != (
            told.rollout_id,
            told.model_call_id,
        ):
            return "the worker answers for another call"
        if coords.prev_len != told.prev_len:
            return f"the worker has {coords.prev_len} tokens before it"
        return None
