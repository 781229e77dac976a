"""The model behind the deployment: a worker that plays the rows and stages its calls.

It never dies. It knows a rollout by a mark in its prompt, which the scripts do not have.
"""

from __future__ import annotations

import asyncio
import json
import re

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from staging import Staging
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from deployed.oracle import require
from ipistate.agents import input_messages
from ipistate.capture import CAPTURE_MEMBER
from ipistate.deploy import builtin_scripts
from ipistate.generate import builtin
from ipistate.kernel import JsonArray, JsonObject, decode
from ipistate.policies import ScriptedPolicy
from ipistate.protocol import EpisodeId


if TYPE_CHECKING:
    from starlette.requests import Request

ROWS = [json.loads(row.to_json()) for row in builtin.rows()]
_MARK = re.compile(r" \[rollout (\S+)\]$")


def marked(row: int, rollout: str) -> dict[str, Any]:
    """Return a row whose prompt names its rollout."""
    found: dict[str, Any] = json.loads(json.dumps(ROWS[row % len(ROWS)]))
    asked = found["responses_create_params"]["input"][-1]
    asked["content"] += f" [rollout {rollout}]"
    return found


class Endpoint:
    """Answers requests of the Responses API.

    Args:
        delay: Draws how long a reply takes.
        asked: Is told the episode, the turn from 0, and the call's id in the ledger.
    """

    def __init__(
        self,
        delay: Callable[[], float],
        asked: Callable[[EpisodeId, int, str], None],
    ) -> None:
        self._delay = delay
        self._asked = asked
        self._policy = ScriptedPolicy("careful", builtin_scripts())
        self.staging = Staging()
        self._numbers = 0

    @property
    def app(self) -> Starlette:
        """The application."""
        return Starlette(
            routes=[Route("/v1/responses", self.respond, methods=["POST"])]
        )

    async def respond(self, request: Request) -> Response:
        """Reply with the next items."""
        body = decode(await request.body())
        assert isinstance(body, JsonObject)
        rollout, said = _unmarked(input_messages(body))
        turn = sum(one.get("type") == "function_call_output" for one in said)
        told: Any = body.get(CAPTURE_MEMBER)
        require(told is not None, f"{rollout}: turn {turn} is not captured")
        episode = EpisodeId.from_capture_key(told["rollout_id"])
        require(episode.rollout_id == rollout, f"{rollout} is captured as {episode}")
        if request.scope["state"]["caller"].is_alive:
            self._asked(episode, turn, told["model_call_id"])
        reply = await self._policy.respond(said, ())
        await asyncio.sleep(self._delay())
        self._numbers += 1
        members = {
            "id": f"resp-{self._numbers}",
            "object": "response",
            "status": "completed",
            "model": reply.model,
            "output": JsonArray(self._named(one) for one in reply.items),
        }
        return JSONResponse(self.staging.captured(body, JsonObject(members)))

    def _named(self, item: JsonObject) -> JsonObject:
        # As real endpoints do: two replies never have the same call.
        if "call_id" not in item:
            return item
        return JsonObject({**item, "call_id": f"call-{self._numbers}"})


def _unmarked(said: tuple[JsonObject, ...]) -> tuple[str, list[JsonObject]]:
    rollout, found = "", list[JsonObject]()
    for one in said:
        text = one.get("content")
        mark = _MARK.search(text) if isinstance(text, str) else None
        if mark is None:
            found.append(one)
        else:
            rollout = mark[1]
            found.append(JsonObject({**one, "content": _MARK.sub("", str(text))}))
    return rollout, found
