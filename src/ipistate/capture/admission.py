"""Which staged tokens a call of a model begins with: a pure function of the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from ipistate.capture.fingerprints import (
    assistant_fingerprint,
    conversation_digest,
    has_assistant_turn,
)
from ipistate.capture.rows import CommittedRow, LedgerRow
from ipistate.kernel import JsonObject


TEXT: Final = "text"
TOKEN_IN: Final = "token_in"  # noqa: S105 - no secret, a mode


@attrs.frozen(kw_only=True)
class Lineage:
    """Where a call stands in its rollout's tree of calls."""

    mode: str = TEXT
    """``text`` for a root, ``token_in`` for a child."""
    parent: CommittedRow | None = None

    @property
    def prev_len(self) -> int:
        """How many tokens its parents have."""
        return 0 if self.parent is None else self.parent.cum_len or 0

    @property
    def staging_chain(self) -> tuple[str, ...]:
        """The staged entries that hold those tokens, in order."""
        return () if self.parent is None else self.parent.staging_chain or ()


@attrs.frozen
class Unresolved:
    """It cannot be said what a call continues; it is not captured."""

    reason: str


def lineage_of(
    items: Sequence[JsonObject], rows: Iterable[LedgerRow]
) -> Lineage | Unresolved:
    """Find the call that a request continues.

    A request in which the model has not spoken is a root, and so is one of a ledger
    without rows. What cannot be resolved is never taken for a root: its tokens would
    stand for another conversation.

    Args:
        items: The request's items.
        rows: The ledger of its capture key.
    """
    known = tuple(rows)
    if not has_assistant_turn(items) or not known:
        return Lineage()
    fingerprint = assistant_fingerprint(items)
    if not fingerprint:
        return Unresolved("what the model has said is empty")
    found = [
        row
        for row in known
        if isinstance(row, CommittedRow) and row.fingerprint == fingerprint
    ]
    if not found:
        return Unresolved("no call of this rollout has said what the request repeats")
    if len(found) > 1:
        return Unresolved(f"{len(found)} calls have said what the request repeats")
    (parent,) = found
    if conversation_digest(items[: parent.context_len]) != parent.context_digest:
        return Unresolved(f"the conversation before {parent.model_call_id} was another")
    if not (parent.chain_hash and parent.staging_chain and parent.cum_len):
        return Unresolved(f"the tokens of {parent.model_call_id} are not staged")
    return Lineage(mode=TOKEN_IN, parent=parent)
