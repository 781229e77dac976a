"""How a reply has ended, by the word that its API has for it: one table for both.

A word that is not in the table is no end: a server that leaves it out, or says something
of its own, may have stopped in the middle of a sentence.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from ipistate.agents import FILTERED, LENGTH, kind
from ipistate.errors import SchemaError, preview
from ipistate.kernel import JsonArray, JsonObject, JsonValue


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BROKEN_OFF: Final = "broken_off"
"""Code of a reply that the endpoint has broken off; another try may succeed."""


class ReplyEnding(Enum):
    """What becomes of a reply."""

    WHOLE = None
    """It counts, and its calls are made."""
    CALLING = "calls"
    """As ``WHOLE``; it has a call, or what the model wanted has been lost."""
    CUT_OFF = LENGTH
    """It ends the episode, which counts neither way unless the attack had succeeded."""
    BLOCKED = FILTERED
    """As ``CUT_OFF``."""
    BROKEN = BROKEN_OFF
    """It does not count: the model is asked again, as after any failure that may pass."""


FINISH_REASON: Final = "$.choices[0].finish_reason"
STATUS: Final = "$.status"
DETAILS: Final = "$.incomplete_details.reason"

ENDINGS: Final[Mapping[str, Mapping[JsonValue, ReplyEnding]]] = {
    FINISH_REASON: {
        "stop": ReplyEnding.WHOLE,
        # What some servers say in place of "stop".
        "eos_token": ReplyEnding.WHOLE,
        "stop_sequence": ReplyEnding.WHOLE,
        "end_turn": ReplyEnding.WHOLE,
        "tool_calls": ReplyEnding.CALLING,
        "function_call": ReplyEnding.CALLING,
        "length": ReplyEnding.CUT_OFF,
        "content_filter": ReplyEnding.BLOCKED,
        "abort": ReplyEnding.BROKEN,
        "error": ReplyEnding.BROKEN,
    },
    STATUS: {
        "completed": ReplyEnding.WHOLE,
        # The member is optional in this API.
        None: ReplyEnding.WHOLE,
        "incomplete": ReplyEnding.CUT_OFF,
        "failed": ReplyEnding.BROKEN,
        "cancelled": ReplyEnding.BROKEN,
    },
    DETAILS: {
        "max_output_tokens": ReplyEnding.CUT_OFF,
        "content_filter": ReplyEnding.BLOCKED,
    },
}
"""By the path of the member, then by its value. Details go before the status."""


def ending(path: str, word: JsonValue) -> ReplyEnding:
    """Look up what a word means that an endpoint ends a reply with.

    Args:
        path: Where it stands, a key of ``ENDINGS``.
        word: What stands there, of any type.

    Raises:
        SchemaError: ``broken_off``, or ``wrong_type`` if it is no word for an end.
    """
    known = ENDINGS[path].get(word) if isinstance(word, str | None) else None
    said = f"{path.rpartition('.')[2]} is {preview(word)}"
    if known is None:
        message = f"{said}, so the reply may have no end"
        raise SchemaError("wrong_type", message, path, preview(word))
    if known is ReplyEnding.BROKEN:
        message = f"{said}: the reply is broken off"
        raise SchemaError(BROKEN_OFF, message, path, preview(word))
    return known


def incomplete_reason(ended: ReplyEnding) -> str | None:
    """Return the reason that an incomplete response has; None for a whole one."""
    incomplete = ended in {ReplyEnding.CUT_OFF, ReplyEnding.BLOCKED}
    return ended.value if incomplete else None


def check_content(ended: ReplyEnding, items: Iterable[JsonObject], path: str) -> None:
    """Refuse a whole reply that says nothing, or lacks the call that it ends with.

    Raises:
        SchemaError: It is one.
    """
    if incomplete_reason(ended) is not None:
        return
    said = [one for one in items if _says_something(one)]
    calls = [one for one in said if kind(one) == "function_call"]
    if not said:
        raise SchemaError("wrong_type", "the reply has nothing in it", path)
    if ended is ReplyEnding.CALLING and not calls:
        message = "the reply ends with a call, and has none"
        raise SchemaError("wrong_type", message, path)


def _says_something(item: JsonObject) -> bool:
    if kind(item) != "message":
        return True
    content = item.get("content")
    parts = content if isinstance(content, JsonArray) else ()
    return any(
        isinstance(part, JsonObject) and part.get("text") != "" for part in parts
    )


def mismatch(message: str, path: str, value: JsonValue) -> SchemaError:
    """Say that a reply has not the form of its API."""
    return SchemaError("wrong_type", message, path, preview(value))
