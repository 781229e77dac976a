"""What the tests of rollouts act with: items, a policy that is told, a watcher."""

from __future__ import annotations

import json

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from ipistate.agents.policy import PolicyReply
from ipistate.kernel.values import JsonObject
from ipistate.rollouts.configuration import Rollout


def call(name: str, arguments: str = "{}", call_id: str = "c-1") -> JsonObject:
    """Return the item of a function call."""
    return JsonObject(
        {
            "type": "function_call",
            "name": name,
            "arguments": arguments,
            "call_id": call_id,
        }
    )


def words(text: str = "Done.") -> JsonObject:
    """Return the item of a message."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return JsonObject({"type": "message", "role": "assistant", "content": [part]})


@attrs.define
class Told:
    """A policy that gives replies in order, by the number of its turns in an episode.

    A reply that is an exception is raised.
    """

    replies: Sequence[PolicyReply | Exception]
    name: str = "told"
    asked: list[tuple[JsonObject, ...]] = attrs.field(factory=list)

    async def respond(
        self, conversation: Sequence[JsonObject], tools: Sequence[JsonObject]
    ) -> PolicyReply:
        """Give the reply of this turn; the last one stands for all further ones."""
        del tools
        turn = sum(one.get("type") == "function_call_output" for one in conversation)
        self.asked.append(tuple(conversation))
        reply = self.replies[min(turn, len(self.replies) - 1)]
        if isinstance(reply, Exception):
            raise reply
        return reply


def saying(*items: JsonObject, **more: Any) -> PolicyReply:
    """Return a reply of items."""
    return PolicyReply(items=items, **more)


@attrs.define
class Watch:
    """Keeps what it is told."""

    notes: list[str] = attrs.field(factory=list)
    failures: list[JsonObject] = attrs.field(factory=list)
    runner: object = None

    def began(self, rollout: Rollout) -> None:
        """Hear that an attempt begins."""

    def failed(self, failure: JsonObject) -> None:
        """Hear of a failure."""
        self.failures.append(failure)

    def finished(self, row: JsonObject) -> None:
        """Hear of a row."""

    def note(self, text: str) -> None:
        """Hear a note."""
        self.notes.append(text)


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]
