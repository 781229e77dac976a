"""Items of the Responses API: reading what a policy needs of them, and writing new ones.

Ids count what the conversation has already, so equal conversations get equal items.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from ipistate.kernel import (
    JsonArray,
    JsonObject,
    JsonValue,
    encode,
    is_array,
    is_object,
)
from ipistate.scoring import function_calls


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    for item in function_calls(conversation):
        yield item["name"], str(item.get("arguments"))


def outputs_in(conversation: Sequence[JsonObject]) -> Iterator[str]:
    """Yield what every tool has answered."""
    for item in conversation:
        if kind(item) == "function_call_output":
            yield text_of(item.get("output"))


def asked_in(conversation: Sequence[JsonObject]) -> tuple[JsonObject, ...]:
    """Return the messages in front, before anybody has answered them."""
    return tuple(takewhile(asks, conversation))


def asks(item: JsonObject) -> bool:
    """Tell whether an item is a message that is to be answered."""
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


def count(value: JsonValue) -> int:
    """Read a number of tokens; 0 for what is none."""
    return max(value, 0) if type(value) is int else 0
