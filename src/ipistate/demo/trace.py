"""The trace of an episode as Responses API items, and the verify request around it.

Nothing in it depends on a clock or a random number, so equal replies give equal bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ipistate.kernel import JsonObject, render, trusted_object


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ipistate.demo.plan import DemoRollout
    from ipistate.tools import ToolCall

_CLOSING: Final = "Done."


def output_items(
    calls: Sequence[ToolCall], replies: Sequence[bytes]
) -> Iterator[dict[str, object]]:
    """Write each call with the reply body that the agent read, then its last words."""
    for number, (call, reply) in enumerate(zip(calls, replies, strict=True)):
        call_id = f"call_{number}"
        yield {
            "type": "function_call",
            "call_id": call_id,
            "name": call.name,
            "arguments": render(call.arguments),
            "id": f"fc_{number}",
            "status": "completed",
        }
        yield {
            "type": "function_call_output",
            "call_id": call_id,
            "output": reply.decode("utf-8", "surrogatepass"),
        }
    yield {
        "type": "message",
        "id": "msg_0",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": _CLOSING, "annotations": []}],
    }


def verify_request(rollout: DemoRollout, replies: Sequence[bytes]) -> JsonObject:
    """Write the request to ``/verify``: the task row with the agent's response."""
    params = rollout.task.responses_create_params
    response = {
        "id": f"resp_{rollout.episode.rollout_id}",
        "created_at": 0,
        "model": f"scripted-{rollout.agent}",
        "object": "response",
        "output": list(output_items(rollout.calls, replies)),
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": params.get("tools", []),
    }
    row = rollout.task.to_document()
    return trusted_object({**row, "response": JsonObject(response)})
