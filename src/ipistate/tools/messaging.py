"""Messages: two tools that six domains share (docs/reference/tools.md, section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ipistate.kernel import (
    EMPTY_ARRAY,
    EMPTY_OBJECT,
    JsonObject,
    JsonValue,
    derive_id,
    trusted_array,
)
from ipistate.tools.arguments import given
from ipistate.tools.filters import Test, ci_field_first, eq, eq_given, select
from ipistate.tools.registry import tool
from ipistate.tools.semantics import field, iterate, text
from ipistate.tools.world import Change, append, place, record, with_collection


if TYPE_CHECKING:
    from collections.abc import Iterable


def current_sender(world: JsonObject, fallback: str) -> JsonValue:
    """Name the sender: the current user's e-mail if truthy, else the name as it is."""
    user = world.get("current_user", EMPTY_OBJECT)
    return field(user, "email") or field(user, "name", fallback)


def entries(messages: JsonValue) -> Iterable[JsonValue]:
    """Visit the messages of a box: a table's values, or what iterating it gives."""
    return messages.values() if isinstance(messages, dict) else iterate(messages)


def store_in_table(
    world: JsonObject, box: str, messages: JsonObject, prefix: str, message: JsonObject
) -> JsonObject:
    """Put a message into a table-shaped box; its id becomes the last member."""
    new_id = derive_id(prefix, message, box, messages, len(messages))
    stored = record(**message, message_id=new_id)
    return with_collection(world, box, place(messages, new_id, stored), stored, 2)


def send_message(
    world: JsonObject,
    recipient: JsonValue = None,
    to: JsonValue = None,
    recipients: JsonValue = None,
    from_: JsonValue = None,
    subject: JsonValue = "",
    body: JsonValue = "",
    case_id: JsonValue = None,
    related_claim_id: JsonValue = None,
    **_: JsonValue,
) -> Change:
    """Send a message to one or more recipients."""
    sender = from_ or current_sender(world, "system@example.com")
    receiver = _receiver(recipient or to or recipients)
    about = given({"case_id": case_id, "related_claim_id": related_claim_id})
    message = record(
        **{"from": sender, "to": receiver},
        subject=subject,
        body=body,
        timestamp="sent",
        **about,
    )
    reply = f"Message sent to {receiver}."
    messages = world.get("messages", EMPTY_ARRAY)
    if isinstance(messages, dict):
        return store_in_table(world, "messages", messages, "MSG-", message), reply
    return append(world, "messages", message), reply


def _receiver(target: JsonValue) -> str:
    if isinstance(target, list):
        return ", ".join(map(text, target))
    return text(target) if target else "unknown"


def get_messages(
    world: JsonObject,
    case_id: JsonValue = None,
    from_: JsonValue = None,
    to: JsonValue = None,
    is_read: JsonValue = None,
    **_: JsonValue,
) -> Change:
    """Read messages, optionally only some of them."""
    rows = trusted_array(entries(world.get("messages", EMPTY_ARRAY)))
    filters: tuple[Test, ...] = (
        eq("case_id", case_id),
        ci_field_first("from", from_),
        ci_field_first("to", to),
        eq_given("is_read", is_read),
    )
    for one in filters:  # each over the whole list before the next
        rows = select(rows, one)
    return world, rows


_SENDING: Final = (
    "healthcare",
    "education",
    "insurance",
    "it_helpdesk",
    "legal",
    "real_estate",
)
_READING: Final = tuple(name for name in _SENDING if name != "insurance")

MESSAGING: Final = (
    tool(send_message, *_SENDING, reads=["current_user"], writes=["messages"]),
    tool(get_messages, *_READING, reads=["messages"]),
)
