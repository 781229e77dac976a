"""A model that plays reference trajectories behind an OpenAI-compatible endpoint.

It stands for a model where none is at hand: its replies depend on the conversation alone,
so a deployment that has died and one that has not can be compared.
"""

from __future__ import annotations

import asyncio

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final

from starlette.routing import Route

from ipistate.agents import PolicyError, input_messages
from ipistate.generate import builtin
from ipistate.kernel import EMPTY_ARRAY, JsonArray, JsonObject, encode
from ipistate.policies import ScriptedPolicy, Scripts, Temper
from ipistate.protocol import RESPONSES_PATH
from ipistate.scoring import by_row
from ipistate.server import json_object, json_reply, plain_app


if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

CALLS_PATH: Final = "/calls"
"""Where it says how often it was asked."""

TEMPERS: Final[tuple[Temper, ...]] = ("careful", "gullible")


def builtin_scripts() -> Scripts:
    """Return the scripts of the built-in rows."""
    rows = builtin.rows()
    return Scripts.of(rows, by_row(builtin.trajectories(), len(rows)))


class ScriptedModel:
    """Answers requests of the Responses API as the script of their messages says.

    Rows are played by a careful and a gullible agent in turn.

    Args:
        scripts: What it may be asked to play.
        seconds: The longest time of a reply; each takes a part of it, drawn by the seed
            and the conversation, so that it does not depend on what else is asked.
        seed: Chooses the parts.
    """

    def __init__(self, scripts: Scripts, seconds: float = 0.0, seed: int = 0) -> None:
        self._scripts = scripts
        self._seconds = seconds
        self._seed = seed
        self.calls: Counter[str] = Counter()

    @property
    def app(self) -> Starlette:
        """The application: the endpoint, and how often it was asked."""
        routes = [
            Route(RESPONSES_PATH, self.respond, methods=["POST"]),
            Route(CALLS_PATH, self.called, methods=["GET"]),
        ]
        return plain_app(routes)

    async def called(self, _: Request) -> Response:
        """Say how often it was asked, and how often it has answered."""
        return json_reply(JsonObject(self.calls))

    async def respond(self, request: Request) -> Response:
        """Reply with the next items."""
        self.calls["asked"] += 1
        body = await json_object(request)
        conversation = input_messages(body)
        random = Random(encode(JsonArray(conversation)) + str(self._seed).encode())  # noqa: S311 - no secret
        try:
            temper = TEMPERS[self._scripts.script(conversation).row % 2]
            reply = await ScriptedPolicy(temper, self._scripts).respond(
                conversation, ()
            )
        except PolicyError as error:
            text = JsonObject({"message": error.message, "code": error.code})
            return json_reply(JsonObject({"error": text}), 400)
        await asyncio.sleep(self._seconds * random.random())
        self.calls["answered"] += 1
        # Whole, because some agents refuse a response that lacks one of these.
        members = {
            "id": "resp_scripted",
            "object": "response",
            "created_at": 0,
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "model": reply.model,
            "output": JsonArray(reply.items),
            "parallel_tool_calls": True,
            "tool_choice": body.get("tool_choice", "auto"),
            "tools": body.get("tools", EMPTY_ARRAY),
        }
        return json_reply(JsonObject(members))
