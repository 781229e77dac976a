"""The control plane's bearer token, looked at before anything else of a call."""

from __future__ import annotations

import hmac
import logging

from typing import TYPE_CHECKING, Final

from ipistate.server.gate import CONTROL_PREFIX
from ipistate.server.replies import refused


if TYPE_CHECKING:
    from starlette.datastructures import Secret
    from starlette.responses import Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ipistate.server.observer import Observer

AUTHORIZED: Final = "ipistate.authorized"
"""Set in the scope of a call that may pass; a route without it lets nobody in."""

_log: Final = logging.getLogger(__name__)


class TokenLayer:
    """ASGI middleware that answers 401 to control calls without the exact token.

    It compares in constant time and stands before the body's limit, so a caller without
    the token is told nothing about a body.

    Args:
        app: What is guarded.
        token: What a caller has to know.
        routes: The control plane's routes; every other request passes.
        observer: Is told of refusals.
    """

    def __init__(
        self, app: ASGIApp, token: Secret, routes: list[Route], observer: Observer
    ) -> None:
        self._app = app
        self._guarded = {route.path: route.methods or () for route in routes}
        self._authorization = f"Bearer {token}".encode("ascii")
        self._observer = observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if (
            scope["type"] != "http"
            or not scope["path"].startswith(CONTROL_PREFIX)
            or scope["method"] not in self._guarded.get(scope["path"], ())
        ):
            await self._app(scope, receive, send)
            return
        if hmac.compare_digest(_given(scope), self._authorization):
            scope[AUTHORIZED] = True
            await self._app(scope, receive, send)
            return
        client = scope.get("client") or (None,)
        _log.warning("control call without the token", extra={"client": client[0]})
        self._observer.refused("unauthorized")
        await unauthorized()(scope, receive, send)


def unauthorized() -> Response:
    """Return the answer to who does not have the token."""
    return refused("unauthorized", "the control plane needs its bearer token")


def _given(scope: Scope) -> bytes:
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    return given[0] if len(given) == 1 else b""
