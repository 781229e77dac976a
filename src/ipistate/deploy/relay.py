"""A relay of flat rows: an agent's ``/run`` under another address.

It keeps nothing, so it takes no part in checkpoints. See docs/reference/control-plane.md,
section 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import Response
from starlette.routing import Route

from ipistate.clients import JSON, Bounds, HttpClient, HttpError
from ipistate.kernel import JsonObject
from ipistate.protocol import RUN_PATH
from ipistate.server import MAX_BODY_BYTES, json_reply, plain_app


if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

_BOUNDS: Final = Bounds(size=256 * 2**20, total=86_400.0, connect=10.0)
"""An episode takes as long as its agent allows."""


def create_relay_app(
    agent_url: str,
    *,
    client: HttpClient | None = None,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> Starlette:
    """Build a relay, which passes rows on and answers byte for byte what comes back.

    Args:
        agent_url: Where the agent is.
        client: Connections to it; without them it makes its own.
        max_body_bytes: Of a row; a longer one is answered 413.
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

    route = Route(RUN_PATH, run, methods=["POST"])
    return plain_app([route], beside=[connections], max_body_bytes=max_body_bytes)
