"""Recorded tool calls: one reading of them, for execution, scores and reports.

A trace is the record of an agent's episode: Responses API items, or the messages of a
Chat Completions conversation. The rule for arguments is ``read_arguments``.
"""

from __future__ import annotations

import re

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import attrs

from ipistate.errors import DecodeError, EncodeError, SchemaError, json_path, preview
from ipistate.kernel import (
    EMPTY_OBJECT,
    JsonObject,
    decode,
    freeze,
    is_array,
    is_object,
    render,
    whole_text,
)


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ipistate.tools import ToolCall

    _Reader: TypeAlias = Callable[[Iterable[object]], "tuple[TracedCall, ...]"]

_Key: TypeAlias = "str | tuple[str, str] | None"

TRUNCATED: Final = "max_output_tokens"
"""The reason of an incomplete response that takes its reward away."""

_CALL: Final = "function_call"
_TEXT_PARTS: Final = ("text", "input_text", "output_text")
_NOT_READABLE: Final = frozenset({"integer_too_large", "not_finite", "too_deep"})
_BODY: Final = re.compile(r'\s*\{\s*"output"\s*:')


@attrs.frozen(kw_only=True)
class TracedCall:
    """A tool call as it was recorded."""

    name: str
    written: str
    """The arguments as text; what was recorded as an object is rendered."""
    reply: str | None = None
    """What the agent read, None if that was not recorded."""
    body: str | None = None
    """The object ``{"output": …}`` that ``reply`` was taken out of, if it was."""
    item: int = attrs.field(default=0, eq=False, repr=False)
    """Position of the item or message that makes the call."""

    @property
    def arguments(self) -> JsonObject | None:
        """The arguments as ``read_arguments`` reads them; None if it refuses to."""
        try:
            return read_arguments(self.written)
        except (DecodeError, SchemaError):
            return None

    @classmethod
    def of(cls, call: ToolCall) -> Self:
        """Record a call as if an agent had made it; its reply is not known."""
        return cls(name=call.name, written=render(call.arguments))

    def to_item(self) -> JsonObject:
        """Write the call as a Responses API item."""
        members = {"name": self.name, "arguments": self.written}
        return JsonObject({"type": _CALL, **members})


def read_arguments(written: str) -> JsonObject:
    """Read the arguments of a recorded call: the one rule for execution and scoring.

    The text is decoded once and has to be an object; an empty text is an empty object.
    Anything else (broken text, ``null``, an array, an object encoded twice) is refused:
    such a call is not executed, changes nothing and matches nothing, but it counts
    as made.

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


def function_calls(items: Iterable[object]) -> Iterator[dict[str, Any]]:
    """Visit the function calls among Responses API items that name their tool.

    Raises:
        EncodeError: An item is not JSON, for example an SDK's object: dump it first.
    """
    for _, item in _objects(items, "an output item"):
        name = item.get("name")
        if item.get("type") == _CALL and isinstance(name, str) and name:
            yield item


def calls_of_items(items: Iterable[object]) -> tuple[TracedCall, ...]:
    """Read the function calls among Responses API items, in order.

    Items of other types and calls without a name are passed over (docs/reference/tools.md, 9.1). A
    reply belongs to the first call before it that has its id and no reply yet.

    Raises:
        EncodeError: An item is not JSON, for example an SDK's object: dump it first.
    """
    trace = _Trace()
    for place, item in _objects(items):
        kind = item.get("type")
        if kind == _CALL:
            trace.call(_key(item.get("call_id")), item, place)
        elif kind == "function_call_output":
            trace.answer(_key(item.get("call_id")), item.get("output"))
    return trace.calls()


def calls_of_messages(messages: Iterable[object]) -> tuple[TracedCall, ...]:
    """Read the tool calls of a Chat Completions conversation, in order.

    Replies are found as in ``calls_of_items``. The older ``function_call`` of a message
    is read as well; its reply, of the role ``function``, has a name instead of an id.

    Raises:
        EncodeError: A message is not JSON, for example an SDK's object: dump it first.
    """
    trace = _Trace()
    for place, message in _objects(messages):
        role = message.get("role")
        if role == "tool":
            trace.answer(_key(message.get("tool_call_id")), message.get("content"))
        elif role == "function":
            trace.answer(_by_name(message), message.get("content"))
        for key, function in _functions(message):
            trace.call(key, function, place)
    return trace.calls()


def calls_of(rollout: Mapping[str, object]) -> tuple[TracedCall, ...] | None:
    """Read the calls of a stored rollout; None if it has no trace that is known.

    Raises:
        EncodeError: A part of the trace is not JSON.
    """
    read, items = _recorded(rollout)
    return None if items is None else read(items)


def items_of(rollout: Mapping[str, object]) -> Sequence[Any] | None:
    """Return the trace of a stored rollout as it stands there; None if none is known.

    Looked for are, in this order: ``response.output`` (Responses API items),
    ``messages`` (a conversation) and the message of the first of ``response.choices``.
    """
    return _recorded(rollout)[1]


def _recorded(rollout: Mapping[str, object]) -> tuple[_Reader, Sequence[Any] | None]:
    response = rollout.get("response")
    response = response if is_object(response) else {}
    output, messages = response.get("output"), rollout.get("messages")
    if is_array(output):
        return calls_of_items, output
    if is_array(messages):
        return calls_of_messages, messages
    choices = response.get("choices")
    if not is_array(choices):
        return calls_of_messages, None
    # Further choices are alternatives to the first, not what came after it.
    first = [choice.get("message") for _, choice in _objects(choices[:1])]
    return calls_of_messages, first


def incomplete_reason(response: Mapping[str, object]) -> str | None:
    """Say why a response is incomplete, if it is."""
    details = response.get("incomplete_details")
    reason = details.get("reason") if is_object(details) else None
    return reason if isinstance(reason, str) else None


class _Trace:
    """Calls in their order, and those of each key that have no reply yet."""

    def __init__(self) -> None:
        self._calls: list[TracedCall] = []
        self._open: dict[_Key, deque[int]] = {}

    def call(self, key: _Key, function: Mapping[str, object], place: int) -> None:
        # A call without a name is left out in the end, but it may have a reply.
        name = function.get("name")
        self._open.setdefault(key, deque()).append(len(self._calls))
        self._calls.append(
            TracedCall(
                name=name if isinstance(name, str) else "",
                written=_written(function.get("arguments", EMPTY_OBJECT)),
                item=place,
            )
        )

    def answer(self, key: _Key, content: object) -> None:
        if waiting := self._open.get(key):
            index = waiting.popleft()
            reply, body = _said(content)
            answered = attrs.evolve(self._calls[index], reply=reply, body=body)
            self._calls[index] = answered

    def calls(self) -> tuple[TracedCall, ...]:
        return tuple(call for call in self._calls if call.name)


def _objects(
    values: Iterable[object], what: str = "a part of a trace"
) -> Iterator[tuple[int, dict[str, Any]]]:
    for index, value in enumerate(values):
        if is_object(value):
            yield index, value
        elif not isinstance(value, None | bool | int | float | str | list):
            message = f"{what} is JSON, not {type(value).__name__}"
            where = json_path([index])
            raise EncodeError("unsupported_type", message, where, preview(value))


def _functions(message: dict[str, Any]) -> Iterator[tuple[_Key, dict[str, Any]]]:
    calls, older = message.get("tool_calls"), message.get("function_call")
    for _, call in _objects(calls) if is_array(calls) else ():
        if is_object(function := call.get("function")):
            yield _key(call.get("id")), function
    if is_object(older):
        yield _by_name(older), older


def _key(call_id: object) -> _Key:
    # Recorders may write anything; calls and replies without an id go in order.
    return call_id if isinstance(call_id, str | None) else ("id", _written(call_id))


def _by_name(holder: dict[str, Any]) -> _Key:
    return "name", _written(holder.get("name"))


def _written(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return render(freeze(value))
    except EncodeError as error:
        if error.code not in _NOT_READABLE:
            raise
        return f"not JSON: {error.message}"  # which no rule reads as arguments


def _said(content: object) -> tuple[str | None, str | None]:
    # What the agent read, and the body around it if that was recorded.
    if content is None:
        return None, None
    parts = list(_texts(content)) if is_array(content) else []
    text = whole_text("".join(parts) if parts else _written(content))
    output = _inner(text)
    return (text, None) if output is None else (output, text)


def _texts(content: Iterable[object]) -> Iterator[str]:
    # Of content parts; those that are not text cannot be compared.
    for part in content:
        if is_object(part) and part.get("type") in _TEXT_PARTS:
            yield part["text"] if isinstance(part.get("text"), str) else ""


def _inner(text: str) -> str | None:
    # Agents record the whole body of the reply, {"output": "..."}; some only its text.
    if _BODY.match(text) is None:
        return None
    try:
        document = decode(text)
    except DecodeError:
        return None
    if not isinstance(document, JsonObject) or len(document) != 1:
        return None
    output = document["output"]
    return output if isinstance(output, str) else None
