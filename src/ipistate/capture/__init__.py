"""Captured calls of a model: what is staged, what names it, what continues what. Pure.

A worker stages the tokens of a call under a digest (``digests``). The ledger has a row for
each call (``rows``), by which a later request finds the call that it continues
(``fingerprints``, ``admission``). A trainer reads the ``manifest``.
"""

from ipistate.capture.admission import TEXT, TOKEN_IN, Lineage, Unresolved, lineage_of
from ipistate.capture.call_messages import (
    CAPTURE_FAILED,
    CAPTURE_MEMBER,
    COMMITTED,
    COORDS_MEMBER,
    CaptureAdmission,
    CapturedCall,
    CommitCoords,
    admission_of,
)
from ipistate.capture.cut_messages import (
    ActiveCall,
    CutAcknowledgement,
    CutInventory,
    CutReceipt,
    checked_receipt,
)
from ipistate.capture.digests import (
    StagedCall,
    chain_hash,
    cumulative_hash,
    extras_digest,
)
from ipistate.capture.fingerprints import (
    FINGERPRINT_VERSION,
    assistant_fingerprint,
    canonical_arguments,
    conversation_digest,
    has_assistant_turn,
)
from ipistate.capture.generation import Generation, continued
from ipistate.capture.generation_cut import CutContinuation, GenerationCutRecord
from ipistate.capture.manifest import MANIFEST_VERSION, capture_manifest, staging_keys
from ipistate.capture.request_forms import (
    is_constrained,
    reply_items,
    request_items,
)
from ipistate.capture.rows import (
    CommittedRow,
    FailureRow,
    LedgerRow,
    read_row,
    row_line,
    row_of,
    stamped,
)


__all__ = [
    "CAPTURE_FAILED",
    "CAPTURE_MEMBER",
    "COMMITTED",
    "COORDS_MEMBER",
    "FINGERPRINT_VERSION",
    "MANIFEST_VERSION",
    "TEXT",
    "TOKEN_IN",
    "ActiveCall",
    "CaptureAdmission",
    "CapturedCall",
    "CommitCoords",
    "CommittedRow",
    "CutAcknowledgement",
    "CutContinuation",
    "CutInventory",
    "CutReceipt",
    "FailureRow",
    "Generation",
    "GenerationCutRecord",
    "LedgerRow",
    "Lineage",
    "StagedCall",
    "Unresolved",
    "admission_of",
    "assistant_fingerprint",
    "canonical_arguments",
    "capture_manifest",
    "chain_hash",
    "checked_receipt",
    "continued",
    "conversation_digest",
    "cumulative_hash",
    "extras_digest",
    "has_assistant_turn",
    "is_constrained",
    "lineage_of",
    "read_row",
    "reply_items",
    "request_items",
    "row_line",
    "row_of",
    "staging_keys",
    "stamped",
]
