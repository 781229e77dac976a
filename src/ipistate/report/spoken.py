"""Who said what: the items of a recorded trace, whatever form they were recorded in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipistate.kernel import JsonArray, JsonObject, JsonValue, encode


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def items_of(row: JsonObject) -> Iterable[JsonValue]:
    """Return the items or messages of a rollout, as ``trace.calls_of`` finds them."""
    response, messages = row.get("response"), row.get("messages")
    output = response.get("output") if isinstance(response, JsonObject) else None
    if isinstance(output, JsonArray):
        return output
    if isinstance(messages, JsonArray):
        return messages
    choices = response.get("choices") if isinstance(response, JsonObject) else None
    first = choices[0] if isinstance(choices, JsonArray) and choices else None
    return [first.get("message")] if isinstance(first, JsonObject) else ()


def calls_in(item: JsonValue) -> int:
    """Count the calls that an item makes, as ``trace.calls_of`` reads them."""
    if not isinstance(item, JsonObject):
        return 0
    if item.get("type") == "function_call":
        return _is_named(item)
    listed, older = item.get("tool_calls"), item.get("function_call")
    functions = [
        one.get("function")
        for one in (listed if isinstance(listed, JsonArray) else ())
        if isinstance(one, JsonObject)
    ]
    return sum(map(_is_named, [*functions, older]))


def _is_named(function: JsonValue) -> bool:
    name = function.get("name") if isinstance(function, JsonObject) else None
    return isinstance(name, str) and bool(name)


def spoken(item: Mapping[str, JsonValue]) -> str:
    """Return what an item says in words, or nothing."""
    said = [_parts(item.get(name)) for name in ("summary", "content", "refusal")]
    return "\n\n".join(text for text in said if text)


def _parts(content: JsonValue) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, JsonArray):
        return "" if content is None else encode(content).decode()
    texts = [part if isinstance(part, str) else _part_text(part) for part in content]
    return "\n".join(texts)


def _part_text(part: JsonValue) -> str:
    for name in ("text", "refusal"):
        text = part.get(name) if isinstance(part, JsonObject) else None
        if isinstance(text, str):
            return text
    return encode(part).decode()
