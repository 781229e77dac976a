"""Recorded tool calls: one reading of them, whoever executes or scores them.

A trace is what an agent left behind: Responses API items, or the messages of a Chat
Completions conversation. The rule for arguments is ``read_arguments``.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

import attrs

from ipistate.codec import decode, render
from ipistate.errors import DecodeError, SchemaError, preview
from ipistate.values import (
    EMPTY_OBJECT,
    JsonArray,
    JsonObject,
    freeze,
    is_array,
    is_object,
)


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
TRUNCATED: Final = "max_output_tokens"
"""The reason of an incomplete response that takes its reward away."""


@attrs.frozen(kw_only=True)
class TracedCall:
    """A tool call as it was recorded."""

    name: str
    written: str
    """The arguments as text; what was recorded as an object is rendered."""
    reply: str | None = None
    """What the agent read, None if that was not recorded."""


def read_arguments(written: str) -> JsonObject:
    """Read the arguments of a recorded call: the one rule for execution and scoring.

    The text is decoded once and has to be an object; an empty text is an empty object.
    Anything else (broken text, ``null``, an array, an object encoded twice) is refused:
    such a call is executed by nobody, changes nothing and matches nothing, but it counts
    as made. This is what the server does with a body.

    Raises:
        DecodeError: The text is not acceptable JSON.
        SchemaError: ``wrong_type``: it is, but not an object.
    """
    if not written.strip():
        return EMPTY_OBJECT
    value = decode(written)
    if isinstance(value, JsonObject):
        return value
    raise SchemaError("wrong_type", "arguments are an object", preview=preview(value))


def calls_of_items(items: Iterable[object]) -> tuple[TracedCall, ...]:
    """Read the function calls among Responses API items, in order.

    Items of other types and calls without a name are passed over (spec tools, 9.1).
    """
    kept = _objects(items)
    replies = _Replies()
    for item in kept:
        if item.get("type") == "function_call_output":
            replies.add(item.get("call_id"), item.get("output"))
    return tuple(
        TracedCall(
            name=name,
            written=_written(item.get("arguments", EMPTY_OBJECT)),
            reply=replies.take(item.get("call_id")),
        )
        for item in kept
        if item.get("type") == "function_call" and (name := _name(item))
    )


def calls_of_messages(messages: Iterable[object]) -> tuple[TracedCall, ...]:
    """Read the tool calls of a Chat Completions conversation, in order."""
    kept = _objects(messages)
    replies = _Replies()
    for message in kept:
        if message.get("role") == "tool":
            replies.add(message.get("tool_call_id"), message.get("content"))
    return tuple(
        TracedCall(
            name=name,
            written=_written(function.get("arguments", EMPTY_OBJECT)),
            reply=replies.take(call.get("id")),
        )
        for message in kept
        for call, function in _functions(message)
        if (name := _name(function))
    )


def calls_of(rollout: JsonObject) -> tuple[TracedCall, ...] | None:
    """Read the calls of a stored rollout; None if it has no trace that is known.

    Looked for are, in this order: ``response.output`` (Responses API items),
    ``messages`` (a conversation) and ``response.choices`` (its last message only).
    """
    response = rollout.get("response")
    response = response if isinstance(response, JsonObject) else EMPTY_OBJECT
    output, messages = response.get("output"), rollout.get("messages")
    if isinstance(output, JsonArray):
        return calls_of_items(output)
    if isinstance(messages, JsonArray):
        return calls_of_messages(messages)
    choices = response.get("choices")
    if not isinstance(choices, JsonArray):
        return None
    return calls_of_messages(choice.get("message") for choice in _objects(choices))


class _Replies:
    """Replies by call id; an id that is used again names the next reply."""

    def __init__(self) -> None:
        self._waiting: dict[object, deque[str | None]] = {}

    def add(self, call_id: object, body: object) -> None:
        self._waiting.setdefault(call_id, deque()).append(_said(body))

    def take(self, call_id: object) -> str | None:
        replies = self._waiting.get(call_id)
        return replies.popleft() if replies else None


def _objects(values: Iterable[object]) -> list[dict[str, Any]]:
    return [value for value in values if is_object(value)]


def _functions(message: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    calls = message.get("tool_calls")
    for call in _objects(calls) if is_array(calls) else ():
        function = call.get("function")
        if is_object(function):
            yield call, function


def _name(holder: dict[str, Any]) -> str:
    name = holder.get("name")
    return name if isinstance(name, str) else ""


def _written(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else render(freeze(arguments))


def _said(body: object) -> str | None:
    if is_array(body):
        texts = [part.get("text") for part in _objects(body)]
        body = "".join(text for text in texts if isinstance(text, str))
    if not isinstance(body, str):
        return None
    # Agents record the whole body of the reply, {"output": "..."}; some only its text.
    try:
        document = decode(body)
    except DecodeError:
        return body
    if isinstance(document, JsonObject) and list(document) == ["output"]:
        return str(document["output"])
    return body
