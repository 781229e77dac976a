"""The application of any participant: its routes, and the control plane beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from ipistate.kernel import JsonObject
from ipistate.protocol import LIVENESS_PATHS, ROLLOUT_PREFIX
from ipistate.server.adapter.control_plane import ControlPlane
from ipistate.server.adapter.prefix import PrefixLayer
from ipistate.server.adapter.token import TokenLayer
from ipistate.server.operating.observer import Observer
from ipistate.server.replies import ANSWERED, Answers, json_reply, refused
from ipistate.server.uploads import BodyLimitLayer


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from starlette.requests import Request
    from starlette.responses import Response

    from ipistate.server.live.participant_shell import Controlled
    from ipistate.server.operating.settings import ServerSettings

_DETAILED = (400, 404, 405)
_ALIVE = JsonObject({"status": "ok"})


def participant_app(
    settings: ServerSettings,
    shell: Controlled,
    routes: Sequence[Route],
    lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]],
) -> Starlette:
    """Build the application of a participant.

    Rollout prefixes are taken off paths, bodies are bounded, and calls of the control
    plane need the token; without a token there is no control plane.

    Args:
        settings: What the operator has decided.
        shell: The participant.
        routes: What this kind serves.
        lifespan: What runs beside the requests.
    """
    observer = Observer()
    guarded = ControlPlane(shell, settings).routes()
    token = settings.checkpoint_token
    guard = (
        []
        if token is None
        else [Middleware(TokenLayer, token=token, routes=guarded, observer=observer)]
    )
    app = Starlette(
        routes=[*routes, *guarded, *_liveness(), _malformed()],
        middleware=[
            Middleware(PrefixLayer, observer=observer),
            *guard,
            Middleware(
                BodyLimitLayer, max_body_size=settings.max_body_bytes, others={}
            ),
        ],
        exception_handlers=dict.fromkeys(
            (*_DETAILED, *ANSWERED, Exception), Answers(observer)
        ),
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


def _liveness() -> list[Route]:
    async def alive(_: Request) -> Response:
        return json_reply(_ALIVE)

    return [Route(path, alive, methods=["GET"]) for path in LIVENESS_PATHS]


def _malformed() -> Route:
    # A prefix that was taken off does not come here: this key is none.
    async def refuse(_: Request) -> Response:
        return refused("invalid_rollout_id", "the path's prefix has no capture key")

    return Route(f"{ROLLOUT_PREFIX}{{rest:path}}", refuse, methods=["GET", "POST"])
