"""The application of any participant: its routes, and the control plane beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.middleware import Middleware
from starlette.routing import Route

from ipistate.protocol import ROLLOUT_PREFIX
from ipistate.server.adapter.control_plane import ControlPlane
from ipistate.server.adapter.prefix import PrefixLayer
from ipistate.server.adapter.token import TokenLayer
from ipistate.server.operating.observer import Observer
from ipistate.server.plain_app import plain_app
from ipistate.server.replies import refused


if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from ipistate.server.live.participant_shell import Controlled
    from ipistate.server.operating.settings import ServerSettings


def participant_app(
    settings: ServerSettings,
    shell: Controlled,
    routes: Sequence[Route],
    beside: Sequence[AbstractAsyncContextManager[object]],
) -> Starlette:
    """Build the application of a participant.

    Rollout prefixes are taken off paths, bodies are bounded, and calls of the control
    plane need the token; without a token there is no control plane.

    Args:
        settings: What the operator has decided.
        shell: The participant.
        routes: What this kind serves.
        beside: Open while it serves, such as its connections to others.
    """
    observer = Observer()
    guarded = ControlPlane(shell, settings).routes()
    token = settings.checkpoint_token
    layers = [Middleware(PrefixLayer, observer=observer)]
    if token is not None:
        guard = Middleware(TokenLayer, token=token, routes=guarded, observer=observer)
        layers.append(guard)
    return plain_app(
        [*routes, *guarded, _malformed()],
        beside=beside,
        layers=layers,
        max_body_bytes=settings.max_body_bytes,
        observer=observer,
    )


def _malformed() -> Route:
    # A prefix that was taken off does not come here: this key is none.
    async def refuse(_: Request) -> Response:
        return refused("invalid_rollout_id", "the path's prefix has no capture key")

    return Route(f"{ROLLOUT_PREFIX}{{rest:path}}", refuse, methods=["GET", "POST"])
