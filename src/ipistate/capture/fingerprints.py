"""What two requests of a model have in common: who said what, without formatting.

A request continues a call if it repeats what the model has said so far (the assistant
fingerprint), after the same conversation (the conversation digest). Reasoning is left
out, because agents need not send it back. Version 3.
"""

from __future__ import annotations

import json

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final

from ipistate.errors import DecodeError
from ipistate.kernel import JsonArray, JsonObject, JsonValue, decode, encode


FINGERPRINT_VERSION: Final = 3

_LINEAGE: Final = b"nemo-gym-lineage"
_CONTEXT: Final = b"nemo-gym-lineage-context"
_INSTRUCTIONS: Final = frozenset({"system", "developer"})
_TEXTS: Final = frozenset({"text", "input_text", "output_text"})
_CALL: Final = "function_call"
_OUTPUT: Final = "function_call_output"
_REASONING: Final = "reasoning"


def _field(tag: int, text: str) -> bytes:
    # Surrogates without their half can stand in a text of a model.
    data = text.encode("utf-8", "surrogatepass")
    return bytes((tag,)) + len(data).to_bytes(8, "big") + data


def assistant_fingerprint(items: Iterable[JsonObject]) -> str:
    """Return the fingerprint of what the model has said, "" if it has said nothing."""
    fields = b"".join(
        field for item in items if _is_said(item) for field in _said(item, 0)
    )
    return sha256(_LINEAGE + fields).hexdigest() if fields else ""


def _is_said(item: JsonObject) -> bool:
    return item.get("type") == _CALL or item.get("role") == "assistant"


def has_assistant_turn(items: Iterable[JsonObject]) -> bool:
    """Tell whether the model has said something."""
    return any(map(_is_said, items))


def conversation_digest(items: Iterable[JsonObject]) -> str:
    """Return the digest of a whole conversation; of instructions only their role."""
    fields = b"".join(field for item in items for field in _context(item))
    return sha256(_CONTEXT + fields).hexdigest()


def _context(item: JsonObject) -> Iterator[bytes]:
    kind = str(item.get("type") or "message")
    if kind == _REASONING:
        return
    role = str(item.get("role") or kind)
    yield _field(0, role)
    if role in _INSTRUCTIONS:
        return
    yield from _said(item, 1)
    if kind == _OUTPUT:
        yield _field(6, str(item.get("call_id", "")))
        yield _field(7, _payload(item.get("output")))


def _said(item: JsonObject, tag: int) -> Iterator[bytes]:
    if item.get("type") == _CALL:
        yield from _call(tag, item.get("call_id"), item)
        return
    for kind, payload in _parts(item.get("content")):
        yield _field(tag, kind)
        yield _field(tag + 1, payload)
    calls = item.get("tool_calls")  # as the chat form writes them
    for call in calls if isinstance(calls, JsonArray) else ():
        function = call.get("function") if isinstance(call, JsonObject) else None
        if isinstance(call, JsonObject) and isinstance(function, JsonObject):
            yield from _call(tag, call.get("id"), function)


def _call(tag: int, call_id: JsonValue, function: JsonObject) -> Iterator[bytes]:
    yield _field(tag + 2, str(call_id or ""))
    yield _field(tag + 3, str(function.get("name", "")))
    yield _field(tag + 4, canonical_arguments(function.get("arguments", "")))


def _parts(content: JsonValue) -> Iterator[tuple[str, str]]:
    # An agent may send a part back as the text that it is.
    if isinstance(content, str):
        yield "text", content
    for part in content if isinstance(content, JsonArray) else ():
        kind = str(part.get("type", "")) if isinstance(part, JsonObject) else ""
        if isinstance(part, JsonObject) and kind in _TEXTS:
            yield "text", str(part.get("text", ""))
        else:
            yield kind, _payload(part)


def _payload(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def canonical_arguments(written: JsonValue) -> str:
    """Return arguments with sorted keys; what is no JSON is only stripped."""
    text = written if isinstance(written, str) else encode(written).decode()
    try:
        return json.dumps(decode(text), sort_keys=True, separators=(",", ":"))
    except DecodeError:
        return text.strip()
