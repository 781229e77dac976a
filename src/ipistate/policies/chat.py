"""Conversations and replies in the form of the Chat Completions API.

A turn of the assistant (words and calls between two answers of tools) is one message
there. Reasoning is read from replies, and sent back only where the endpoint wants it.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from ipistate.agents import (
    NewItems,
    PolicyReply,
    kind,
    text_of,
    words,
    written,
)
from ipistate.errors import json_path
from ipistate.kernel import EMPTY_OBJECT, JsonArray, JsonObject
from ipistate.policies.endings import (
    FINISH_REASON,
    check_content,
    ending,
    incomplete_reason,
    mismatch,
)
from ipistate.policies.endpoint import REASONING_MEMBERS, Api
from ipistate.policies.parameters import is_offered
from ipistate.policies.responses import body, usage_in


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ipistate.policies.endpoint import Endpoint

PATH: Final = "/chat/completions"
_ROLES: Final = {"developer": "system"}
"""What only some endpoints know, by what all of them do."""


def request(
    endpoint: Endpoint,
    conversation: Sequence[JsonObject],
    tools: Sequence[JsonObject],
    more: JsonObject = EMPTY_OBJECT,
) -> JsonObject:
    """Write the body of a request for the next message.

    Args:
        endpoint: Names the model, and says how it samples.
        conversation: What has been said.
        tools: The definitions of the tools that are offered.
        more: What else the row asks, as this API has it; instructions come first.
    """
    rest = dict(more)
    told = rest.pop("instructions", None)
    front = [] if told is None else [JsonObject({"role": "system", "content": told})]
    said = {"messages": [*front, *messages(conversation, endpoint.reasoning_as)]}
    return body(endpoint, "max_tokens", said, [*_definitions(tools)], rest)


def messages(
    conversation: Iterable[JsonObject], reasoning_as: str | None = None
) -> Iterator[JsonObject]:
    """Translate items into messages; items of other kinds are left out.

    Args:
        conversation: What has been said.
        reasoning_as: The member of the assistant's messages that has the reasoning;
            None to leave it out.
    """
    for answers, group in groupby(conversation, _is_answer):
        if answers:
            for message in _answer(items := [*group]):
                thought = (
                    {} if reasoning_as is None else {reasoning_as: _thought(items)}
                )
                yield JsonObject({**message, **thought})
        else:
            yield from (one for item in group if (one := _asked(item)) is not None)


def _thought(items: Iterable[JsonObject]) -> str:
    # Empty where the model has not thought: such endpoints want the member all the same.
    parts = (
        part
        for one in items
        if kind(one) == "reasoning"
        for name in ("summary", "content")
        if isinstance(listed := one.get(name), JsonArray)
        for part in listed
    )
    texts = (part.get("text") for part in parts if isinstance(part, JsonObject))
    return "\n".join(text for text in texts if isinstance(text, str))


def _is_answer(item: JsonObject) -> bool:
    if kind(item) == "message":
        return item.get("role") == "assistant"
    return kind(item) in {"function_call", "reasoning"}


def _asked(item: JsonObject) -> JsonObject | None:
    match kind(item):
        case "message":
            role = item.get("role")
            text = text_of(item.get("content"))
            return JsonObject({"role": _ROLES.get(str(role), role), "content": text})
        case "function_call_output":
            members = {"role": "tool", "tool_call_id": item.get("call_id")}
            return JsonObject({**members, "content": text_of(item.get("output"))})
        case _:
            return None


def _answer(items: Sequence[JsonObject]) -> Iterator[JsonObject]:
    said = [text_of(one.get("content")) for one in items if kind(one) == "message"]
    calls = [_sent(one) for one in items if kind(one) == "function_call"]
    text = "\n".join(said)
    if calls:
        members = {"role": "assistant", "content": text or None, "tool_calls": calls}
        yield JsonObject(members)
    elif said:
        yield JsonObject({"role": "assistant", "content": text})


def _sent(call: JsonObject) -> JsonObject:
    function = {"name": call.get("name"), "arguments": call.get("arguments")}
    members = {"id": call.get("call_id"), "type": "function"}
    return JsonObject({**members, "function": JsonObject(function)})


def _definitions(tools: Iterable[JsonObject]) -> Iterator[JsonObject]:
    for tool in tools:
        if is_offered(Api.CHAT, tool):
            inner = {name: part for name, part in tool.items() if name != "type"}
            yield JsonObject({"type": "function", "function": JsonObject(inner)})


def reply(document: JsonObject, conversation: Sequence[JsonObject]) -> PolicyReply:
    """Translate a completion; of several choices the first one counts.

    Raises:
        SchemaError: It is none, with the path of what is wrong.
    """
    choices = document.get("choices")
    if not isinstance(choices, JsonArray) or not choices:
        raise mismatch("a completion has choices", "$.choices", choices)
    first = choices[0]
    message = first.get("message") if isinstance(first, JsonObject) else None
    if not isinstance(first, JsonObject) or not isinstance(message, JsonObject):
        raise mismatch("a choice has a message", "$.choices[0].message", first)
    items = tuple(_items(message, NewItems(conversation)))
    ended = ending(FINISH_REASON, first.get("finish_reason"))
    check_content(ended, items, "$.choices[0].message")
    return PolicyReply(
        items=items,
        usage=usage_in(document, "prompt_tokens", "completion_tokens"),
        incomplete_reason=incomplete_reason(ended),
        model=written(document.get("model") or ""),
    )


def _items(message: JsonObject, new: NewItems) -> Iterator[JsonObject]:
    for name in REASONING_MEMBERS:
        if isinstance(thought := message.get(name), str) and thought:
            yield new.reasoning(thought)
            break
    if parts := [*_parts(message)]:
        yield new.message(parts)
    calls = message.get("tool_calls")
    if not calls and (called := message.get("function_call")):
        # What tool calls were called before there could be several.
        calls = JsonArray([JsonObject({"function": called})])
    if calls is not None and not isinstance(calls, JsonArray):
        where = "$.choices[0].message.tool_calls"
        raise mismatch("tool calls are an array", where, calls)
    for index, call in enumerate(calls or ()):
        yield _call(call, new, ("choices", 0, "message", "tool_calls", index))


def _parts(message: JsonObject) -> Iterator[JsonObject]:
    content, refusal = message.get("content"), message.get("refusal")
    if not isinstance(content, str | JsonArray | None):
        where = "$.choices[0].message.content"
        raise mismatch("content is a text, parts or null", where, content)
    if text := text_of(content):
        yield words(text)
    if isinstance(refusal, str) and refusal:
        yield JsonObject({"type": "refusal", "refusal": refusal})


def _call(call: Any, new: NewItems, path: tuple[str | int, ...]) -> JsonObject:
    function = call.get("function") if isinstance(call, JsonObject) else None
    name = function.get("name") if isinstance(function, JsonObject) else None
    if not isinstance(function, JsonObject) or not isinstance(name, str) or not name:
        raise mismatch("a tool call names a function", json_path(path), call)
    return new.function_call(call.get("id"), name, function.get("arguments"))
