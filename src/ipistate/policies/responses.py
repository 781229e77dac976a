"""Requests and replies in the form of the Responses API, which items have already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ipistate.agents import (
    NewItems,
    PolicyReply,
    Usage,
    count,
    kind,
    words,
    written,
)
from ipistate.errors import json_path
from ipistate.kernel import EMPTY_OBJECT, JsonArray, JsonObject, JsonValue
from ipistate.policies.endings import (
    DETAILS,
    STATUS,
    check_content,
    ending,
    incomplete_reason,
    mismatch,
)
from ipistate.policies.parameters import OF_TOOLS


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ipistate.policies.endings import ReplyEnding
    from ipistate.policies.endpoint import Endpoint

PATH: Final = "/responses"


def request(
    endpoint: Endpoint,
    conversation: Sequence[JsonObject],
    tools: Sequence[JsonObject],
    more: JsonObject = EMPTY_OBJECT,
) -> JsonObject:
    """Write the body of a request for the next items.

    Args:
        endpoint: Names the model, and says how it samples.
        conversation: What has been said.
        tools: The definitions of the tools that are offered.
        more: What else the row asks, as this API has it.
    """
    said = {"input": [*conversation]}
    return body(endpoint, "max_output_tokens", said, [*tools], more)


def body(
    endpoint: Endpoint,
    limit: str,
    said: Mapping[str, object],
    tools: Sequence[JsonObject],
    more: Mapping[str, JsonValue],
) -> JsonObject:
    """Write a request in either form, without what is left to the endpoint.

    Args:
        endpoint: Names the model, and says how it samples.
        limit: What the form calls the number of tokens that a reply may have.
        said: The conversation, under its name in the form.
        tools: The definitions of the tools that are offered.
        more: What else the row asks, in the form.
    """
    sampling = endpoint.sampling
    members = {
        "model": endpoint.model,
        **said,
        "tools": tools or None,
        **{n: value for n, value in more.items() if tools or n not in OF_TOOLS},
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        limit: sampling.max_output_tokens,
    }
    return JsonObject({n: value for n, value in members.items() if value is not None})


def reply(document: JsonObject, conversation: Sequence[JsonObject]) -> PolicyReply:
    """Read a response; items of kinds that no agent of ours can have are left out.

    Raises:
        SchemaError: It is none, with the path of what is wrong.
    """
    output = document.get("output")
    if not isinstance(output, JsonArray):
        raise mismatch("a response has an array of items", "$.output", output)
    ended = _ending(document)
    items = tuple(_items(output, NewItems(conversation)))
    check_content(ended, items, "$.output")
    return PolicyReply(
        items=items,
        usage=usage_in(document, "input_tokens", "output_tokens"),
        incomplete_reason=incomplete_reason(ended),
        model=written(document.get("model") or ""),
    )


def usage_in(document: JsonObject, *names: str) -> Usage:
    """Read the tokens that a reply has cost, by their names in the form."""
    usage = document.get("usage")
    members = usage if isinstance(usage, JsonObject) else EMPTY_OBJECT
    return Usage(*(count(members.get(name)) for name in names))


def _ending(document: JsonObject) -> ReplyEnding:
    details = document.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, JsonObject) else None
    ended = ending(STATUS, document.get("status"))
    return ended if reason is None else ending(DETAILS, reason)


def _items(output: JsonArray, new: NewItems) -> Iterator[JsonObject]:
    for index, item in enumerate(output):
        if not isinstance(item, JsonObject):
            where = json_path(("output", index))
            raise mismatch("an item is an object", where, item)
        match kind(item):
            case "function_call":
                yield _call(item, new, index)
            case "message":
                yield new.message(_parts(item.get("content"), index), item)
            case "reasoning":
                yield new.reasoning(None, item)
            case _:
                pass


def _call(item: JsonObject, new: NewItems, index: int) -> JsonObject:
    name = item.get("name")
    if not isinstance(name, str) or not name:
        where = json_path(("output", index, "name"))
        raise mismatch("a function call has a name", where, name)
    return new.function_call(item.get("call_id"), name, item.get("arguments"), item)


def _parts(content: Any, index: int) -> Sequence[JsonObject]:
    if isinstance(content, str):
        return [words(content)]
    where = json_path(("output", index, "content"))
    if not isinstance(content, JsonArray):
        raise mismatch("a message has parts", where, content)
    parts = [part for part in content if isinstance(part, JsonObject)]
    if len(parts) < len(content):
        raise mismatch("a part is an object", where, content)
    return parts
