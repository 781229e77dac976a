"""The server's bearer token, looked at before anything else of a call that needs it."""

from __future__ import annotations

import hmac
import logging

from typing import TYPE_CHECKING, Final

from starlette.routing import Match

from ipistate.server.replies import refused


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from starlette.datastructures import Secret
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ipistate.server.operating.observer import Observer

    Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

AUTHORIZED: Final = "ipistate.authorized"
"""Set in the scope of a call that may pass; a route without it refuses every call."""

_SHOWN: Final = 100

_log: Final = logging.getLogger("ipistate.server.token")


class TokenLayer:
    """ASGI middleware that answers 401 to guarded calls without the exact token.

    It compares in constant time and stands before the body's limit, so a caller without
    the token is told nothing about a body.

    Args:
        app: What is guarded.
        token: What a caller has to know.
        routes: The guarded routes; every other request passes.
        observer: Is told of refusals.
    """

    def __init__(
        self, app: ASGIApp, token: Secret, routes: list[Route], observer: Observer
    ) -> None:
        self._app = app
        self._routes = routes
        self._prefixes = tuple({_first_segment(route.path) for route in routes})
        self._authorization = f"Bearer {token}".encode("ascii")
        self._observer = observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._guards(scope):
            await self._app(scope, receive, send)
            return
        # The mark goes into the scope, which no caller can write to; a route looks for it
        # because the application can be mounted without this layer.
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        one = given[0] if len(given) == 1 else b""
        if hmac.compare_digest(one, self._authorization):
            scope[AUTHORIZED] = True
            await self._app(scope, receive, send)
            return
        client = (scope.get("client") or (None,))[0]
        # A proxy that is trusted may have written anything as the address.
        shown = ascii(client)[:_SHOWN]
        _log.warning("call without the token from %s", shown, extra={"client": client})
        self._observer.refused("unauthorized")
        await _unauthorized()(scope, receive, send)

    def _guards(self, scope: Scope) -> bool:
        # Most requests are tool calls, for which one comparison has to do.
        return scope["path"].startswith(self._prefixes) and any(
            route.matches(scope)[0] is Match.FULL for route in self._routes
        )


def authorized(handler: Handler) -> Handler:
    """Make a handler that serves only calls that the layer has let pass.

    A route that is reached past it, by an application mounted in another one, say,
    serves no call.
    """

    async def serve(request: Request) -> Response:
        if request.scope.get(AUTHORIZED) is True:
            return await handler(request)
        return _unauthorized()

    return serve


def _unauthorized() -> Response:
    return refused("unauthorized", "this route needs the server's bearer token")


def _first_segment(path: str) -> str:
    return "/".join(path.split("/", 2)[:2]) + "/"
