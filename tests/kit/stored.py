"""Rollouts as a trainer stores them: a task row, and what an agent called and read."""

from __future__ import annotations

import json

from typing import Any

from ipistate.scoring.task import Task
from ipistate.tools.transition import ToolCall, replay


def rollout(
    task: Task,
    calls: tuple[ToolCall, ...],
    *,
    reason: str | None = None,
    replies: bool = True,
) -> dict[str, Any]:
    """Return the rollout of an agent that made these calls, as a trainer stores it."""
    items: list[dict[str, str]] = []
    done = replay(task.environment, calls)
    for number, (call, transition) in enumerate(zip(calls, done, strict=True)):
        call_id, body = f"call_{number}", json.dumps({"output": transition.output})
        arguments = json.dumps(call.arguments)
        made = {"type": "function_call", "name": call.name, "arguments": arguments}
        items.append({**made, "call_id": call_id})
        if replies:
            said = {"type": "function_call_output", "call_id": call_id}
            items.append({**said, "output": body})
    details = None if reason is None else {"reason": reason}
    response = {"output": items, "incomplete_details": details}
    return {**json.loads(task.to_json()), "response": response}
