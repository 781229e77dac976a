"""Items of the Responses API: reading what a policy needs of them, and writing new ones.

Ids count what the conversation has already, so equal conversations get equal items.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from ipistate.codec import encode, render
from ipistate.values import (
    EMPTY_ARRAY,
    JsonArray,
    JsonObject,
    JsonValue,
    is_array,
    is_object,
)


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ipistate.transition import ToolCall

TEXT_PARTS: Final = ("text", "input_text", "output_text")
_ASKING: Final = ("system", "developer", "user")


def kind(item: JsonObject) -> str:
    """Name the type of an item; a message need not carry its own."""
    named = item.get("type")
    return named if isinstance(named, str) else "message"


def text_of(content: Any) -> str:
    """Return the text of a message or of an output: a string, or parts of them."""
    if isinstance(content, str):
        return content
    parts = [one for one in content if is_object(one)] if is_array(content) else []
    texts = [one.get("text") for one in parts if one.get("type") in TEXT_PARTS]
    return "".join(one for one in texts if isinstance(one, str))


def calls_in(conversation: Sequence[JsonObject]) -> Iterator[tuple[str, str]]:
    """Yield the name and the written arguments of every function call."""
    for item in conversation:
        if kind(item) == "function_call":
            yield str(item.get("name")), str(item.get("arguments"))


def outputs_in(conversation: Sequence[JsonObject]) -> Iterator[str]:
    """Yield what every tool has answered."""
    for item in conversation:
        if kind(item) == "function_call_output":
            yield text_of(item.get("output"))


def asked_in(conversation: Sequence[JsonObject]) -> tuple[JsonObject, ...]:
    """Return the messages in front, before anybody has answered them."""
    return tuple(takewhile(_asks, conversation))


def _asks(item: JsonObject) -> bool:
    return kind(item) == "message" and item.get("role") in _ASKING


def fingerprint(messages: Sequence[JsonObject]) -> bytes:
    """Write roles and texts of messages, however else they are spelled."""
    return b"\n".join(encode(_essence(message)) for message in messages)


def _essence(item: JsonObject) -> JsonValue:
    if kind(item) != "message":
        return item
    return JsonArray([item.get("role"), text_of(item.get("content"))])


def input_messages(params: JsonObject) -> tuple[JsonObject, ...]:
    """Return the input of a task row as messages; a text is what the user says."""
    given = params.get("input")
    if isinstance(given, str):
        return (JsonObject({"role": "user", "content": given}),)
    listed = given if isinstance(given, JsonArray) else ()
    return tuple(one for one in listed if isinstance(one, JsonObject))


def function_call(call: ToolCall, conversation: Sequence[JsonObject]) -> JsonObject:
    """Write a function call as the next item of a conversation."""
    number = sum(1 for _ in calls_in(conversation))
    return JsonObject(
        {
            "type": "function_call",
            "call_id": f"call_{number}",
            "name": call.name,
            "arguments": render(call.arguments),
            "id": f"fc_{number}",
            "status": "completed",
        }
    )


def message(text: str, conversation: Sequence[JsonObject]) -> JsonObject:
    """Write words of the assistant as the next item of a conversation."""
    said = [one for one in conversation if one.get("role") == "assistant"]
    part = JsonObject({"type": "output_text", "text": text, "annotations": EMPTY_ARRAY})
    return JsonObject(
        {
            "type": "message",
            "id": f"msg_{len(said)}",
            "role": "assistant",
            "status": "completed",
            "content": JsonArray([part]),
        }
    )
