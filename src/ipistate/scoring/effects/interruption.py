"""Where a trace stops to be one of its seed: what recorded replies say about that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from ipistate.errors import DecodeError
from ipistate.kernel import JsonObject, decode
from ipistate.scoring.meaning import fold
from ipistate.scoring.retrace import Refusal, Retrace


if TYPE_CHECKING:
    from collections.abc import Mapping

Interruption: TypeAlias = Literal[
    "truncated",
    "filtered",
    "unreadable_trace",
    "other_world",
    "lost_session",
    "no_seed",
    "masked",
    "too_much_work",
]

_LOST: Final = "session not initialized"
_FAILURE: Final = "internal server error"
_REFUSALS: Final = (_FAILURE, "invalid", "failed", "error", "could not", "cannot")


def interruption(again: Retrace) -> Interruption | None:
    """Say why a trace cannot be assessed to its end; None if it can."""
    for step in again.steps:
        if isinstance(step, Refusal) and not _is_refusal(step.traced.reply):
            lost = _LOST in fold(step.traced.reply or "")
            return "lost_session" if lost else "unreadable_trace"
    if not again.diverged:
        return None
    # Only a reply that this world does not give gets here, so quoting is no matter.
    return "lost_session" if _is_lost(again.steps[-1].traced.reply) else "other_world"


def _is_refusal(reply: str | None) -> bool:
    # Another answer comes from a server that read the arguments by another rule and ran
    # the call.
    if reply is None or not reply.strip():
        return True
    if _LOST in fold(reply):
        return False
    members = _members(reply)
    refused = fold(reply).startswith(_REFUSALS)
    return "detail" in members or "error" in members or refused


def _is_lost(reply: str | None) -> bool:
    text = fold(reply or "")
    harness = not text or text == _FAILURE
    return harness or _LOST in text or [*_members(reply or "")] == ["detail"]


def _members(reply: str) -> Mapping[str, object]:
    try:
        document = decode(reply)
    except DecodeError:
        return {}
    return document if isinstance(document, JsonObject) else {}
