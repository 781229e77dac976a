"""Rows of the capture ledger: one for each call of a model that has ended.

They name staged tokens and hold none. A line is compact JSON with sorted keys; see
docs/reference/control-plane.md, section 6.
"""

from __future__ import annotations

import json

from math import isfinite
from typing import Any, Final, TypeAlias

import attrs

from ipistate.errors import SchemaError, preview
from ipistate.kernel import decode_as, is_object, refuse, structure


def _check_count(_: object, field: attrs.Attribute[Any], count: int | None) -> None:
    if count is not None and count < 0:
        raise refuse("negative", "a length is 0 or more", count, field)


def _check_time(_: object, field: attrs.Attribute[Any], time: float | None) -> None:
    if time is not None and not isfinite(time):
        raise refuse("not_finite", "a time is a finite number", time, field)


@attrs.frozen(kw_only=True)
class CommittedRow:
    """A call whose tokens are staged.

    The first five members are what parents are found by; the others are custody, and
    come together or not at all.
    """

    model_call_id: str
    fingerprint: str
    """Of what the model has said, this reply included."""
    context_len: int
    """How many items of a request repeat the conversation up to this reply."""
    context_digest: str
    digest: str
    """The cumulative hash."""
    parent_call_id: str | None = None
    staging_key: str | None = None
    weight_version: int | None = None
    prev_len: int | None = attrs.field(default=None, validator=_check_count)
    delta_len: int | None = attrs.field(default=None, validator=_check_count)
    cum_len: int | None = attrs.field(default=None, validator=_check_count)
    staging_digest: str | None = None
    extras_digest: str | None = None
    mode: str | None = None
    admitted_at: float | None = attrs.field(default=None, validator=_check_time)
    staging_chain: tuple[str, ...] | None = None
    chain_hash: str | None = None
    cumulative_hash: str | None = None
    response_id: str | None = None
    output_fingerprint: str | None = None
    continuation_fingerprint: str | None = None
    fingerprint_version: int | None = None
    capture_key: str | None = None
    """The attempt that has staged it, of rows that were restored."""


@attrs.frozen(kw_only=True)
class FailureRow:
    """A call whose capture has failed; it never is a parent."""

    model_call_id: str
    failure_reason: str


LedgerRow: TypeAlias = CommittedRow | FailureRow

_REQUIRED: Final = frozenset(
    one.name for one in attrs.fields(CommittedRow) if one.default is attrs.NOTHING
)


def row_line(row: LedgerRow) -> bytes:
    """Write a row as its line, newline included; what is unknown is left out."""
    members = attrs.asdict(row)
    kept = {
        name: value
        for name, value in members.items()
        if value is not None or name in _REQUIRED
    }
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
    return text.encode("ascii") + b"\n"


def read_row(line: bytes) -> LedgerRow:
    """Read a line.

    Raises:
        DecodeError: It is not acceptable JSON.
        SchemaError: It is not a row.
    """
    return decode_as(line, lambda tree, _: row_of(tree))


def row_of(tree: Any) -> LedgerRow:
    """Read a row from its members.

    Raises:
        SchemaError: It is not one.
    """
    if not is_object(tree):
        raise SchemaError("wrong_type", "a row is an object", preview=preview(tree))
    if "failure_reason" in tree:
        return structure(tree, FailureRow)
    return structure(tree, CommittedRow)


def stamped(row: LedgerRow, capture_key: str) -> LedgerRow:
    """Note which attempt has staged a row that is restored; the first note stays."""
    if isinstance(row, FailureRow) or row.staging_key is None or row.capture_key:
        return row
    return attrs.evolve(row, capture_key=capture_key)
