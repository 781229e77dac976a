"""An episode's conversation as a value, and what has to happen in it next. Pure.

Everything that decides how an episode goes on is in here, so a conversation that comes
back from a checkpoint goes on as if nothing had happened.
"""

from __future__ import annotations

import re

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from ipistate.agents.policy import PolicyReply, Usage
from ipistate.errors import DecodeError, SchemaError
from ipistate.kernel import (
    EMPTY_ARRAY,
    EMPTY_OBJECT,
    JsonObject,
    JsonValue,
    adopt_members,
    encode,
    structure,
    trusted_array,
    trusted_object,
    unstructure,
)
from ipistate.scoring import read_arguments


if TYPE_CHECKING:
    from collections.abc import Iterator

    from ipistate.kernel import Adopt

ROUTES: Final = frozenset(
    {"seed_session", "verify", "close_session", "aggregate_metrics"}
)
"""Routes of a server that are not tools, also if a model calls them."""

_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}")
_CALL: Final = "function_call"
_OUTPUT: Final = "function_call_output"


@attrs.frozen
class Ask:
    """The policy's turn."""


@attrs.frozen(kw_only=True)
class Send:
    """A tool call for the server."""

    call_id: JsonValue
    name: str
    arguments: JsonObject


@attrs.frozen(kw_only=True)
class RefuseCall:
    """A tool call that no server sees, and what the model reads instead."""

    call_id: JsonValue
    output: str


@attrs.frozen
class Over:
    """The conversation has ended and can be scored."""


NextStep: TypeAlias = Ask | Send | RefuseCall | Over


@attrs.frozen(kw_only=True)
class Conversation:
    """What has been said since the input messages."""

    output: tuple[JsonObject, ...] = ()
    turns: int = 0
    """How often the policy has replied."""
    last: int = 0
    """Where in ``output`` its last reply begins."""
    usage: Usage = attrs.field(factory=Usage)
    model: str = ""
    incomplete_reason: str | None = None

    def replied(self, reply: PolicyReply) -> Conversation:
        """Return the conversation after a turn of the policy."""
        # What tools answer is not for a policy to say.
        items = [one for one in reply.items if one.get("type") != _OUTPUT]
        return attrs.evolve(
            self,
            output=(*self.output, *items),
            turns=self.turns + 1,
            last=len(self.output),
            usage=self.usage + reply.usage,
            model=reply.model or self.model,
            incomplete_reason=reply.incomplete_reason,
        )

    def answered(self, call_id: JsonValue, output: str) -> Conversation:
        """Return the conversation after a tool call has its output."""
        item = {"type": _OUTPUT, "call_id": call_id, "output": output}
        return attrs.evolve(self, output=(*self.output, trusted_object(item)))

    def next_step(self, max_steps: int) -> NextStep:
        """Say what has to happen next; ``max_steps`` bounds the policy's turns."""
        if not self.turns:
            return Ask()
        if self.incomplete_reason is not None:
            return Over()
        calls = list(self._calls())
        answers = len(self.output) - self.last - self._said()
        if answers < len(calls):
            return _step(calls[answers])
        return Ask() if calls and self.turns < max_steps else Over()

    def _calls(self) -> Iterator[JsonObject]:
        for item in self.output[self.last :]:
            if item.get("type") == _CALL:
                yield item

    def _said(self) -> int:
        # Outputs are appended in the order of the calls, after everything that was said.
        said = self.output[self.last :]
        count = len(said)
        while count and said[count - 1].get("type") == _OUTPUT:
            count -= 1
        return count


def _step(call: JsonObject) -> Send | RefuseCall:
    call_id, name = call.get("call_id"), call.get("name")
    written = call.get("arguments", "")
    if not isinstance(name, str) or not is_tool_name(name):
        shown = name if isinstance(name, str) else ""
        return RefuseCall(call_id=call_id, output=reply_body(f"Unknown tool: {shown}"))
    if isinstance(written, JsonObject):
        return Send(call_id=call_id, name=name, arguments=written)
    try:
        arguments = read_arguments(written if isinstance(written, str) else "null")
    except (DecodeError, SchemaError) as error:
        text = f"Error: the arguments of {name} are not a JSON object: {error.message}"
        return RefuseCall(call_id=call_id, output=reply_body(text))
    return Send(call_id=call_id, name=name, arguments=arguments)


def is_tool_name(name: str) -> bool:
    """Tell whether a name can be sent: a model must not reach another route with it."""
    return _TOOL_NAME.fullmatch(name) is not None and name not in ROUTES


def reply_body(text: str) -> str:
    """Write a text as the body in which a server puts the replies of tools."""
    return encode(JsonObject({"output": text})).decode("utf-8", "surrogatepass")


def response(
    said: Conversation,
    rollout_id: str,
    params: JsonObject,
    policy: str,
    sent: JsonObject | None = None,
) -> JsonObject:
    """Write a conversation as a Responses object; equal ones have equal bytes.

    Args:
        said: The conversation.
        rollout_id: Names the response.
        params: The task row's ``responses_create_params``.
        policy: Stands for the model if no reply has named one.
        sent: What a model was asked beside the conversation, which the response then
            has instead of what the row says; None if no model was asked.
    """
    reason = said.incomplete_reason
    details = None if reason is None else JsonObject({"reason": reason})
    asked = params if sent is None else sent
    members: dict[str, JsonValue] = {
        "id": f"resp_{rollout_id}",
        "created_at": 0,
        "status": "completed" if reason is None else "incomplete",
        "error": None,
        "incomplete_details": details,
        "model": said.model or policy,
        "object": "response",
        "output": trusted_array(said.output),
        "parallel_tool_calls": asked.get("parallel_tool_calls", True),
        "tool_choice": asked.get("tool_choice", "auto"),
        "tools": asked.get("tools", EMPTY_ARRAY),
        "usage": _usage(said.usage),
    }
    more = sent or EMPTY_OBJECT
    rest = {name: part for name, part in more.items() if name not in members}
    return trusted_object({**members, **rest})


def _usage(usage: Usage) -> JsonObject:
    return JsonObject(
        {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.input_tokens + usage.output_tokens,
        }
    )


def offered_tools(params: JsonObject) -> tuple[JsonObject, ...]:
    """Return the definitions of the tools that the model is offered."""
    listed = params.get("tools")
    tools = listed if isinstance(listed, list) else ()
    return tuple(one for one in tools if isinstance(one, JsonObject))


@attrs.frozen(kw_only=True)
class AgentState:
    """An episode at a turn boundary."""

    schema_version: int = attrs.field(default=1, validator=attrs.validators.in_([1]))
    conversation: Conversation = attrs.field(factory=Conversation)
    cookies: JsonObject = EMPTY_OBJECT
    """The cookies that the server has set; they name the session."""


class AgentStateCodec:
    """Carries episodes in the records of a checkpoint directory."""

    def encode(self, state: AgentState) -> bytes:
        """Write an episode as compact JSON."""
        return encode(unstructure(state))

    def decode(self, tree: Any, adopt: Adopt) -> AgentState:
        """Read what ``encode`` has written.

        Raises:
            SchemaError: It is something else.
        """
        return structure(adopt_members(tree, adopt), AgentState)
