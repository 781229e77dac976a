"""What an inference worker asks of an engine that completes from token ids."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol, TypeAlias

import attrs

from ipistate.errors import IpiStateError
from ipistate.kernel import EMPTY_OBJECT, JsonArray, JsonObject, JsonValue


STOP: Final = "stop"
LENGTH: Final = "length"

DEFAULT_LIMIT: Final = 512
"""Tokens of a reply whose request has no limit."""


class EngineFailedError(IpiStateError):
    """An engine that does not answer, or not as it should (``engine_failed``)."""


@attrs.frozen
class EngineToken:
    """A token that was generated."""

    token: int
    logprob: float


@attrs.frozen
class EngineEnd:
    """The generation is over: ``stop`` or ``length``."""

    reason: str


EngineStep: TypeAlias = EngineToken | EngineEnd


@attrs.frozen(kw_only=True)
class Drawing:
    """How tokens are drawn, and what form they must have."""

    limit: int
    """Most tokens that are generated now."""
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    schema: JsonObject | None = None
    """A JSON schema that the reply has to fit."""


class Engine(Protocol):
    """Completes from token ids."""

    @property
    def model(self) -> str:
        """The name that replies carry."""
        ...

    @property
    def weight_version(self) -> int:
        """Which weights it has."""
        ...

    async def render(self, body: JsonObject) -> str:
        """Write a chat request as the text of its prompt."""
        ...

    async def tokens(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text, marks of the template included."""
        ...

    async def text(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, marks of the template included."""
        ...

    async def spoken(self, tokens: Sequence[int]) -> str:
        """Return the text of generated tokens, without the mark that ends it."""
        ...

    def generate(
        self, prompt: Sequence[int], drawing: Drawing
    ) -> AsyncIterator[EngineStep]:
        """Generate tokens, and say in the end why it is over."""
        ...


def drawing_of(body: JsonObject) -> Drawing:
    """Read how a request wants its tokens drawn."""
    limit = _number(body, "max_completion_tokens") or _number(body, "max_tokens")
    seed = _number(body, "seed")
    return Drawing(
        limit=DEFAULT_LIMIT if limit is None else max(1, int(limit)),
        temperature=_number(body, "temperature"),
        top_p=_number(body, "top_p"),
        seed=None if seed is None else int(seed),
        schema=schema_of(body),
    )


def _number(body: JsonObject, name: str) -> float | None:
    value = body.get(name)
    return float(value) if type(value) in {int, float} else None  # type: ignore[arg-type]


def named_tool(body: JsonObject) -> JsonObject | None:
    """Return the function that the reply has to call; None if it may say anything."""
    choice = body.get("tool_choice")
    chosen = _member(choice, "function").get("name")
    tools = body.get("tools")
    for tool in tools if isinstance(tools, JsonArray) else ():
        function = _member(tool, "function")
        if chosen is not None and function.get("name") == chosen:
            return function
    return None


def as_said(body: JsonObject) -> JsonObject:
    """Return a request whose tool calls stand there as the model has said them.

    A constrained reply is the arguments and nothing else. Templates write calls in ways
    of their own, or not at all, and the conversation would not begin with its tokens.
    """
    messages = body.get("messages")
    if not isinstance(messages, JsonArray):
        return body
    return JsonObject({**body, "messages": JsonArray(map(_said, messages))})


def _said(message: JsonValue) -> JsonValue:
    calls = message.get("tool_calls") if isinstance(message, JsonObject) else None
    if not isinstance(message, JsonObject) or not isinstance(calls, JsonArray):
        return message
    texts = [str(_member(call, "function").get("arguments", "")) for call in calls]
    rest = {name: one for name, one in message.items() if name != "tool_calls"}
    said = message.get("content") or "".join(texts)
    return JsonObject({**rest, "content": said})


def schema_of(body: JsonObject) -> JsonObject | None:
    """Return the JSON schema that a request constrains its reply to."""
    function = named_tool(body)
    if function is not None:
        # Closed, because a small model does not stop inventing parameters by itself.
        closed = {"additionalProperties": False}
        return JsonObject({**closed, **_member(function, "parameters")})
    schema = _member(_member(body, "response_format"), "json_schema").get("schema")
    return schema if isinstance(schema, JsonObject) else None


def _member(value: JsonValue, name: str) -> JsonObject:
    inner = value.get(name) if isinstance(value, JsonObject) else None
    return inner if isinstance(inner, JsonObject) else EMPTY_OBJECT
