"""New items of a conversation, with ids that only the conversation decides.

Equal conversations get equal items, so an episode that is recovered goes on unchanged.
"""

from __future__ import annotations

from itertools import chain
from itertools import count as naturals
from typing import TYPE_CHECKING, Final

from ipistate.agents.items import asks, kind
from ipistate.kernel import (
    EMPTY_ARRAY,
    EMPTY_OBJECT,
    JsonArray,
    JsonObject,
    JsonValue,
    render,
)


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_STEMS: Final[Mapping[str, str]] = {
    "function_call": "fc",
    "message": "msg",
    "reasoning": "rs",
}


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
