"""The shapes in which agents record calls and replies, each of them read once, here.

An *entry* is an item of the Responses API or a message of a conversation. What it holds
comes out as parts: a call, a reply, or something that is a call and cannot be read. The
page docs/explanation/recorded-calls.md lists the shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from ipistate.errors import DecodeError
from ipistate.kernel import EMPTY_OBJECT, decode, is_array, is_object
from ipistate.scoring.reply_texts import written


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

CallKey: TypeAlias = "str | tuple[str, str] | None"
"""What a call and its reply have in common; None without an id."""

_ARGUMENTS: Final = ("arguments", "args", "input", "parameters", "kwargs")
_CALL_IDS: Final = ("call_id", "id", "toolCallId", "tool_call_id")
_REPLY_IDS: Final = ("tool_call_id", "toolCallId", "tool_use_id", "call_id")
_CALL_LISTS: Final = ("tool_calls", "toolCalls")
_CALL_BLOCKS: Final = ("tool_use", "tool_call", "tool-call", "function_call")
_REPLY_BLOCKS: Final = ("tool_result", "tool-result")
# Calls that a provider executes, or whose input is no object: scoring passes them over.
_OTHER_CALLS: Final = (
    *("custom_tool_call", "mcp_call", "mcp_tool_use", "server_tool_use"),
)


class CallPart(NamedTuple):
    """A call."""

    key: CallKey
    name: str
    """As it was written; empty for a call that is not the agent's."""
    arguments: object


class ReplyPart(NamedTuple):
    """What was answered to a call."""

    key: CallKey
    content: object
    other_key: CallKey = None
    """A number of the message itself, which some recorders take from the call."""


class UnreadPart(NamedTuple):
    """Something that is, or may be, a call, and is not read."""

    message: str
    key: CallKey = None
    name: str | None = None
    """The tool, if it is known: what names no tool of the table loses nothing."""


Part: TypeAlias = CallPart | ReplyPart | UnreadPart


def parts_of(entry: object) -> Iterator[Part]:
    """Visit the calls and replies of an entry, in order."""
    opened = _opened(entry)
    if not is_object(opened):
        yield UnreadPart(message="an entry that is no object")
    elif opened.get("type") == "function_call":
        yield _item(opened)
    elif opened.get("type") == "function_call_output":
        key = _key(opened.get("call_id"))
        yield ReplyPart(key=key, content=opened.get("output"))
    elif opened.get("type") in _OTHER_CALLS:
        yield _other(opened)
    else:
        yield from _parts_of_message(opened)


def _item(item: dict[str, Any]) -> Part:
    name, key = item.get("name"), item.get("call_id")
    if isinstance(name, str) and isinstance(key, str) and "arguments" in item:
        return CallPart(key=key, name=name, arguments=item["arguments"])
    return _call(item)


def _parts_of_message(message: dict[str, Any]) -> Iterator[Part]:
    found = [*_replies(message), *_calls(message)]
    # Some recorders keep the calls of a message twice, as a list and among its content.
    found = found or [*_blocks(message.get("content")), *_gemini(message.get("parts"))]
    if not (found or isinstance(message.get("role", message.get("type")), str)):
        found = [UnreadPart(message="an entry without a role or a type")]
    yield from found


def _replies(message: dict[str, Any]) -> Iterator[Part]:
    if message.get("role") == "function":
        key = _by_name(message)
        yield ReplyPart(key=key, content=message.get("content"))
    if "tool" not in (message.get("role"), message.get("type")):
        return
    several = message.get("tool_messages")
    for one in several if is_array(several) else [message]:
        if is_object(one) and not any(_blocks(one.get("content"))):
            yield _reply(one)


def _reply(message: dict[str, Any]) -> ReplyPart:
    content, error = message.get("content"), message.get("error")
    error = error.get("message") if is_object(error) else error
    if isinstance(error, str) and error and not _says(content):
        content = error
    key = _key(_first(message, _REPLY_IDS))
    return ReplyPart(key=key, content=content, other_key=_key(message.get("id")))


def _says(content: object) -> bool:
    blocks = content if is_array(content) else ()
    texts = [one.get("text", one.get("content")) for one in blocks if is_object(one)]
    return any(texts) if is_array(content) else bool(content)


def _calls(message: dict[str, Any]) -> Iterator[Part]:
    for name in _CALL_LISTS:
        listed = _opened(message.get(name))
        if is_array(listed):
            yield from map(_call, listed)
        elif listed:
            yield _call(listed)
    older = _opened(message.get("function_call"))
    if older:
        yield (
            _keyed(_call(older), _by_name(older)) if is_object(older) else _call(older)
        )


def _blocks(content: object) -> Iterator[Part]:
    for block in filter(is_object, content if is_array(content) else ()):
        kind = block.get("type")
        if kind in _CALL_BLOCKS:
            yield _call(block)
        elif kind in _OTHER_CALLS:
            yield _other(block)
        elif kind in _REPLY_BLOCKS:
            said = _first(block, ("content", "result", "output"))
            yield ReplyPart(key=_key(_first(block, _REPLY_IDS)), content=said)


def _gemini(parts: object) -> Iterator[Part]:
    for part in filter(is_object, parts if is_array(parts) else ()):
        made = _first(part, ("functionCall", "function_call"))
        said = _first(part, ("functionResponse", "function_response"))
        if is_object(made):
            key = _by_name(made) if made.get("id") is None else _key(made.get("id"))
            yield _keyed(_call(made), key)
        if is_object(said):
            key = _by_name(said) if said.get("id") is None else _key(said.get("id"))
            yield ReplyPart(key=key, content=said.get("response"))


def _call(value: object) -> Part:
    outer = _opened(value)
    if not is_object(outer):
        return UnreadPart(message="a call that is no object")
    inner = _opened(outer.get("function"))
    holders = (inner, outer) if is_object(inner) else (outer,)
    # The function is an object of its own, a name, or the call itself.
    names = [inner, *(_first(one, ("name", "toolName")) for one in holders)]
    name = next((one for one in names if isinstance(one, str)), None)
    key = _key(_first(outer, _CALL_IDS))
    if name is None:
        custom = outer.get("custom")
        return _other(custom, key) if is_object(custom) else _nameless(key)
    if outer.get("requestor") == "user":
        name = ""
    return CallPart(key=key, name=name, arguments=_arguments(holders))


def _arguments(holders: Iterable[Mapping[str, Any]]) -> object:
    given = [one[name] for one in holders for name in _ARGUMENTS if name in one]
    if not given:
        return EMPTY_OBJECT
    return next((one for one in given if one is not None), None)


def _other(call: dict[str, Any], key: CallKey = None) -> UnreadPart:
    name = call.get("name")
    return UnreadPart(
        message="a call that is not a function call",
        key=_key(_first(call, _CALL_IDS)) if key is None else key,
        name=name if isinstance(name, str) else None,
    )


def _nameless(key: CallKey) -> UnreadPart:
    return UnreadPart(message="a call that does not name its tool", key=key)


def _keyed(part: Part, key: CallKey) -> Part:
    return part._replace(key=key)


def _opened(value: object) -> object:
    # Whole calls are kept as JSON text by some; a name or a sentence stays as it is.
    if not isinstance(value, str) or value.lstrip()[:1] not in {"{", "["}:
        return value
    try:
        return decode(value)
    except DecodeError:
        return value


def _first(holder: Mapping[str, Any], names: Iterable[str]) -> Any:
    given = (holder.get(name) for name in names)
    return next((one for one in given if one is not None), None)


def _key(call_id: object) -> CallKey:
    # Recorders may write anything; calls and replies without an id go in order.
    return call_id if isinstance(call_id, str | None) else ("id", written(call_id))


def _by_name(holder: dict[str, Any]) -> CallKey:
    return "name", written(holder.get("name"))
