"""What a row asks of a model beside messages and tools, and what an API takes of it.

A row's ``responses_create_params`` are in the form of the Responses API. What the API of
the endpoint has under this or another name is sent; for the rest it is said why not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self, TypeAlias

import attrs

from ipistate.agents import offered_tools
from ipistate.kernel import EMPTY_OBJECT, JsonArray, JsonObject, JsonValue, unstructure
from ipistate.policies.endpoint import Api


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ipistate.policies.endpoint import Endpoint, Sampling

    _Translation: TypeAlias = Callable[[JsonValue], Mapping[str, JsonValue] | None]
    """The members of a request for a value; None for a value that cannot be sent."""

OF_TOOLS: Final = frozenset({"tool_choice", "parallel_tool_calls"})
"""Members that endpoints refuse where no tools are offered."""

_ELSEWHERE: Final = frozenset({"input", "tools", "model", "stream"})
"""Said in another way, or by the command, or without a meaning for the reply."""


def _text(name: str) -> _Translation:
    return lambda value: {name: value} if isinstance(value, str) else None


def _number(name: str) -> _Translation:
    return lambda value: {name: value} if type(value) is int else None


def _switch(name: str) -> _Translation:
    return lambda value: {name: value} if isinstance(value, bool) else None


def _object(name: str) -> _Translation:
    return lambda value: {name: value} if isinstance(value, JsonObject) else None


def _choice(value: JsonValue) -> Mapping[str, JsonValue] | None:
    if isinstance(value, str | JsonObject):
        return {"tool_choice": value}
    return None


def _choice_in_chat(value: JsonValue) -> Mapping[str, JsonValue] | None:
    if isinstance(value, str):
        return {"tool_choice": value}
    members = value if isinstance(value, JsonObject) else EMPTY_OBJECT
    name = members.get("name")
    if members.get("type") != "function" or not isinstance(name, str):
        return None
    function = JsonObject({"name": name})
    return {"tool_choice": JsonObject({"type": "function", "function": function})}


def _effort(value: JsonValue) -> Mapping[str, JsonValue] | None:
    effort = value.get("effort") if isinstance(value, JsonObject) else None
    return {"reasoning_effort": effort} if isinstance(effort, str) else None


def _stop(value: JsonValue) -> Mapping[str, JsonValue] | None:
    texts = value if isinstance(value, JsonArray) else [value]
    return {"stop": value} if all(isinstance(one, str) for one in texts) else None


_TAKEN: Final[Mapping[Api, Mapping[str, _Translation]]] = {
    Api.RESPONSES: {
        "instructions": _text("instructions"),
        "tool_choice": _choice,
        "parallel_tool_calls": _switch("parallel_tool_calls"),
        "reasoning": _object("reasoning"),
        "text": _object("text"),
        "truncation": _text("truncation"),
        "max_tool_calls": _number("max_tool_calls"),
    },
    Api.CHAT: {
        # The first message there; no member of the request.
        "instructions": _text("instructions"),
        "tool_choice": _choice_in_chat,
        "parallel_tool_calls": _switch("parallel_tool_calls"),
        "reasoning": _effort,
        "stop": _stop,
        "seed": _number("seed"),
    },
}
"""What each API takes of a row, and how it is written there."""


@attrs.frozen(kw_only=True)
class RowParameters:
    """What a model is asked of a row, and what is not asked though the row says it."""

    sent: JsonObject = EMPTY_OBJECT
    """As the Responses API names it, sampling and tools included."""
    members: JsonObject = EMPTY_OBJECT
    """As the endpoint's API has it, without sampling and tools."""
    unsent: tuple[str, ...] = ()
    """A sentence for each member of the row that is not sent."""

    @classmethod
    def of(cls, endpoint: Endpoint, params: JsonObject) -> Self:
        """Take from a row what an endpoint's API has.

        Args:
            endpoint: Its sampling goes before the row's.
            params: The row's ``responses_create_params``; null is as good as absent.
        """
        sampling = endpoint.sampling.or_of(params)
        tools = [one for one in offered_tools(params) if is_offered(endpoint.api, one)]
        sent: dict[str, JsonValue] = {}
        members: dict[str, JsonValue] = {}
        unsent = [*_left(endpoint.api, params, sampling)]
        for name, translated in _TAKEN[endpoint.api].items():
            if (value := params.get(name)) is None or (name in OF_TOOLS and not tools):
                continue
            if (found := translated(value)) is None:
                unsent.append(f"{name} of a row has a value that cannot be sent")
            else:
                sent[name] = _kept(endpoint.api, name, value)
                members.update(found)
        drawn = {n: one for n, one in unstructure(sampling).items() if one is not None}
        return cls(
            sent=JsonObject({"tools": tools, **sent, **drawn}),
            members=JsonObject(members),
            unsent=tuple(unsent),
        )


def is_offered(api: Api, tool: JsonObject) -> bool:
    """Tell whether an API can offer a tool: functions only, in a chat."""
    return api is Api.RESPONSES or tool.get("type", "function") == "function"


def _kept(api: Api, name: str, value: JsonValue) -> JsonValue:
    if api is Api.CHAT and name == "reasoning" and isinstance(value, JsonObject):
        return JsonObject({"effort": value["effort"]})
    return value


def _left(api: Api, params: JsonObject, sampling: Sampling) -> Iterator[str]:
    given = {name for name, value in params.items() if value is not None}
    for name in sorted(given - _TAKEN[api].keys() - _ELSEWHERE):
        if not hasattr(sampling, name):
            yield f"{name} of a row is not sent: the {api} API has no such member"
        elif getattr(sampling, name) is None:
            yield f"{name} of a row has a value that cannot be sent"
    thinking = params.get("reasoning")
    if api is Api.CHAT and isinstance(thinking, JsonObject):
        for name, value in thinking.items():
            if name != "effort" and value is not None:
                yield f"reasoning.{name} of a row is not sent: the chat API has none"
    for tool in offered_tools(params):
        if not is_offered(api, tool):
            yield f"a tool that is no function is not offered: the {api} API has none"
