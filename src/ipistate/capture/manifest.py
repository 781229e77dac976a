"""The manifest of a rollout's captured calls, as a trainer reads it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from ipistate.capture.rows import CommittedRow, FailureRow, LedgerRow
from ipistate.kernel import JsonObject


MANIFEST_VERSION: Final = 1

_CUSTODY: Final = ("response_id", "chain_hash", "cumulative_hash")
"""Without one of these a staged row proves nothing."""


def capture_manifest(capture_key: str, rows: Iterable[LedgerRow]) -> JsonObject:
    """Write the manifest of a ledger; a gap in custody is a failure, never silent."""
    records: list[JsonObject] = []
    failures: list[JsonObject] = []
    for row in rows:
        problem = _problem(row)
        if problem is not None:
            failed = {"model_call_id": row.model_call_id, "reason": problem}
            failures.append(JsonObject(failed))
        elif isinstance(row, CommittedRow) and row.staging_key is not None:
            records.append(_record(row))
    return JsonObject(
        {
            "schema_version": MANIFEST_VERSION,
            "rollout_id": capture_key,
            "records": records,
            "failures": failures,
        }
    )


def _problem(row: LedgerRow) -> str | None:
    if isinstance(row, FailureRow):
        return row.failure_reason
    if row.staging_key is None:
        return None
    missing = [name for name in _CUSTODY if getattr(row, name) is None]
    return f"the row lacks {', '.join(missing)}" if missing else None


def _record(row: CommittedRow) -> JsonObject:
    members = attrs.asdict(row)
    return JsonObject({n: one for n, one in members.items() if one is not None})


def staging_keys(rows: Iterable[LedgerRow]) -> tuple[str, ...]:
    """Name the staged entries of these rows, sorted, each once."""
    keys = {row.staging_key for row in rows if isinstance(row, CommittedRow)}
    return tuple(sorted(key for key in keys if key is not None))
