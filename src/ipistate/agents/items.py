"""Items of the Responses API: reading what a policy needs of them, and writing new ones.

Only the conversation decides the ids of new items, so equal conversations get equal
ones, and an episode that is recovered goes on unchanged.
"""

from __future__ import annotations

from itertools import chain, takewhile
from itertools import count as naturals
from typing import TYPE_CHECKING, Any, Final

from ipistate.kernel import (
    EMPTY_ARRAY,
    EMPTY_OBJECT,
    JsonArray,
    JsonObject,
    JsonValue,
    encode,
    is_array,
    is_object,
    render,
)
from ipistate.scoring import function_calls


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

TEXT_PARTS: Final = ("text", "input_text", "output_text")
_ASKING: Final = ("system", "developer", "user")
_STEMS: Final[Mapping[str, str]] = {
    "function_call": "fc",
    "message": "msg",
    "reasoning": "rs",
}


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
    """Return the messages in front, before the first answer."""
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


def written(arguments: JsonValue) -> str:
    """Return arguments as text: as they were written, an object rendered."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else render(arguments)


def words(text: str) -> JsonObject:
    """Write the part of a message that is a text."""
    return JsonObject({"type": "output_text", "text": text})


class NewItems:
    """Writes the items that come next in a conversation.

    What is given of an item is kept. An id that it lacks, or that another one has, is
    replaced by one that is free.
    """

    def __init__(self, conversation: Sequence[JsonObject]) -> None:
        self._taken: dict[str, set[JsonValue]] = {n: set() for n in _STEMS.values()}
        self._taken["call"] = set()
        for item in conversation:
            if (stem := _STEMS.get(kind(item))) and not asks(item):
                self._taken[stem].add(item.get("id"))
            if stem == "fc":
                self._taken["call"].add(item.get("call_id"))

    def function_call(
        self,
        call_id: JsonValue,
        name: str,
        arguments: JsonValue,
        given: JsonObject = EMPTY_OBJECT,
    ) -> JsonObject:
        """Write a function call; its arguments stay as they were written."""
        members = {
            "type": "function_call",
            "call_id": self._free(call_id, "call"),
            "name": name,
            "arguments": written(arguments),
        }
        return JsonObject({**given, **members, **self._closing("fc", given)})

    def message(
        self, parts: Iterable[JsonObject], given: JsonObject = EMPTY_OBJECT
    ) -> JsonObject:
        """Write a message of the assistant."""
        members = {
            "type": "message",
            "role": "assistant",
            "content": JsonArray(map(_annotated, parts)),
        }
        return JsonObject({**given, **members, **self._closing("msg", given)})

    def reasoning(
        self, text: str | None, given: JsonObject = EMPTY_OBJECT
    ) -> JsonObject:
        """Write what the model thought, as far as it tells."""
        parts = [] if text is None else [{"type": "summary_text", "text": text}]
        members = {
            "type": "reasoning",
            "id": self._free(given.get("id"), "rs"),
            "summary": given.get("summary") or parts,
        }
        return JsonObject({**given, **members})

    def _closing(self, stem: str, given: JsonObject) -> dict[str, JsonValue]:
        status = given.get("status") or "completed"
        return {"id": self._free(given.get("id"), stem), "status": status}

    def _free(self, wished: JsonValue, stem: str) -> str:
        taken = self._taken[stem]
        first = wished if isinstance(wished, str) and wished else f"{stem}_{len(taken)}"
        # Begins where no number can be taken but by accident, so that many are no work.
        later = (f"{first}_{number}" for number in naturals(len(taken)))
        found = next(one for one in chain((first,), later) if one not in taken)
        taken.add(found)
        return found


def _annotated(part: JsonObject) -> JsonObject:
    if part.get("type") != "output_text":
        return part
    return JsonObject({**part, "annotations": part.get("annotations") or EMPTY_ARRAY})
