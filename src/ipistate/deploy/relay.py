"""A relay of flat rows: an agent's ``/run`` under another address.

It keeps nothing, so it takes no part in checkpoints. See docs/reference/control-plane.md,
section 6.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from ipistate.clients import JSON, Bounds, HttpClient, HttpError
from ipistate.kernel import JsonObject
from ipistate.protocol import LIVENESS_PATHS, RUN_PATH
from ipistate.server import json_reply


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.requests import Request

_BOUNDS: Final = Bounds(size=256 * 2**20, total=86_400.0, connect=10.0)
"""An episode takes as long as its agent allows."""


def create_relay_app(agent_url: str, *, client: HttpClient | None = None) -> Starlette:
    """Build a relay, which passes rows on and answers byte for byte what comes back.

    Args:
        agent_url: Where the agent is.
        client: Connections to it; without them it makes its own.
    """
    connections = client or HttpClient()

    async def run(request: Request) -> Response:
        body = await request.body()
        try:
            answer = await connections.send(
                "POST", agent_url, RUN_PATH, body, bounds=_BOUNDS, headers=JSON
            )
        except HttpError as error:
            return json_reply(
                JsonObject({"detail": f"the agent: {error.message}"}), 502
            )
        kind = answer.headers.get("content-type")
        return Response(answer.content, answer.status, media_type=kind)

    async def alive(_: Request) -> Response:
        return json_reply(JsonObject({"status": "ok"}))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with connections:
            yield

    routes = [Route(RUN_PATH, run, methods=["POST"])]
    routes += [Route(path, alive, methods=["GET"]) for path in LIVENESS_PATHS]
    return Starlette(routes=routes, lifespan=lifespan)
