"""The application: routes, middleware in their order, and answers to errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from ipistate.errors import DecodeError, SchemaError
from ipistate.server.bodies import BodyLimitLayer, malformed, undecodable
from ipistate.server.control import ControlPlane
from ipistate.server.cookies import SessionCookie, SessionLayer
from ipistate.server.dataplane import DataPlane
from ipistate.server.gate import GateLayer
from ipistate.server.prefix import PrefixLayer
from ipistate.server.replies import detail, json_reply
from ipistate.server.settings import ServerSettings
from ipistate.server.shell import Shell


if TYPE_CHECKING:
    from starlette.requests import Request

_DETAILED: Final = (400, 404, 405, 409)


def create_app(settings: ServerSettings | None = None) -> Starlette:
    """Build a server with no sessions.

    A request passes the rollout prefix, its session, the gate and the body limit, in
    this order, before it reaches a route (spec control-plane, sections 1 and 3.4).
    """
    settings = settings or ServerSettings()
    shell = Shell(settings)
    token = settings.checkpoint_token
    secret = settings.cookie_secret or settings.cookie_name
    cookie = SessionCookie(settings.cookie_name, str(secret))
    routes = DataPlane(settings, shell.sessions).routes()
    if token is not None:
        routes = [*routes, *ControlPlane(shell, token).routes()]
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(PrefixLayer),
            Middleware(SessionLayer, cookie=cookie),
            Middleware(GateLayer, shell=shell, seed_headers=token is not None),
            Middleware(BodyLimitLayer, max_body_size=settings.max_body_bytes),
        ],
        exception_handlers={
            **dict.fromkeys(_DETAILED, _detailed),
            DecodeError: undecodable,
            SchemaError: malformed,
            ClientDisconnect: _unanswered,
            Exception: _failed,
        },
    )
    app.router.redirect_slashes = False
    return app


async def _detailed(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return detail(error.status_code, error.detail, error.headers)


class _NoResponse(Response):
    async def __call__(self, *_: object) -> None:
        pass


async def _unanswered(_: Request, __: Exception) -> Response:
    # Nobody is left to answer.
    return _NoResponse()


async def _failed(_: Request, error: Exception) -> Response:
    return json_reply(repr(error), 500)
