"""A server of sessions inside the test: the same tools and verdicts, without sockets."""

from __future__ import annotations

import asyncio

from collections.abc import Mapping
from typing import cast

from ipistate import Task, call_tool, decode, encode
from ipistate.agents.conversation import Conversation
from ipistate.agents.items import NewItems, words
from ipistate.agents.policy import PolicyReply
from ipistate.clients import HttpAnswer
from ipistate.demo.plan import DemoRollout
from ipistate.demo.play import Recording, play
from ipistate.kernel.environment import Environment
from ipistate.kernel.values import JsonObject
from ipistate.rollouts.connection import Channel
from ipistate.scoring.verify_reply import verify_reply
from ipistate.scoring.verify_request import VerifyRequest
from ipistate.tools.transition import ToolCall


class LocalChannel:
    """Answers the requests of episodes as a faultless server does."""

    def __init__(self) -> None:
        """Begin without sessions."""
        self.worlds: dict[str, Environment] = {}

    async def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        cookies: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        """Answer a request for ``/ng-rollout/<key>/<route>``."""
        del method, cookies
        key, route = path.split("/")[2:]
        return HttpAnswer(200, {}, encode(self._answer(key, route, body)), {})

    def _answer(self, key: str, route: str, body: bytes) -> JsonObject:
        if route == "seed_session":
            self.worlds[key] = Task.from_json(body).environment
            return JsonObject()
        if route == "verify":
            request = VerifyRequest.from_document(decode(body))
            return verify_reply(request, request.verdict())
        done = call_tool(self.worlds[key], route, decode(body))
        self.worlds[key] = done.environment
        return JsonObject({"output": done.output})


def recorded(rollout: DemoRollout) -> Recording:
    """Record a rollout of the demo as a faultless server answers it."""
    channel = cast("Channel", LocalChannel())  # all of one that the demo uses
    return asyncio.run(play(channel, rollout))


def spoken_items(calls: list[ToolCall], replies: list[bytes]) -> tuple[JsonObject, ...]:
    """Return the output items of an agent that made these calls and got these bodies."""
    said = Conversation()
    for call, body in zip(calls, replies, strict=True):
        item = NewItems(said.output).function_call(None, call.name, call.arguments)
        text = body.decode("utf-8", "surrogatepass")
        said = said.replied(PolicyReply(items=(item,)))
        said = said.answered(item["call_id"], text)
    closing = NewItems(said.output).message([words("Done.")])
    return said.replied(PolicyReply(items=(closing,))).output
