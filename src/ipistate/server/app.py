"""The application: routes, middleware in their order, and answers to errors."""

from __future__ import annotations

import re

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from ipistate.errors import DecodeError, IpiStateError, SchemaError
from ipistate.server.bodies import BodyLimitLayer, malformed, undecodable
from ipistate.server.control import ControlPlane
from ipistate.server.cookies import SessionCookie, SessionLayer
from ipistate.server.dataplane import DataPlane
from ipistate.server.gate import GateLayer
from ipistate.server.observer import Observer
from ipistate.server.prefix import PrefixLayer
from ipistate.server.replies import detail, json_reply
from ipistate.server.sessions import SessionConflictError
from ipistate.server.settings import ServerSettings
from ipistate.server.shell import Shell
from ipistate.server.token import TokenLayer
from ipistate.transition import call_tool


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from typing import TypeAlias

    from starlette.requests import Request
    from starlette.routing import Route

    Answer: TypeAlias = Callable[[Request, Exception], Awaitable[Response]]

_DETAILED: Final = (400, 404, 405)


def create_app(settings: ServerSettings | None = None) -> Starlette:
    """Build a server with no sessions.

    A request passes the rollout prefix, its session, the token if it is a control call,
    the gate and the body limit, in this order, before it reaches a route (spec
    control-plane, sections 1 and 3.4).
    """
    settings = settings or ServerSettings()
    observer = _observer(settings)
    shell = Shell(settings, observer)
    execute = observer.counting(call_tool)
    control = ControlPlane(shell, settings).routes()
    data = DataPlane(settings, shell.sessions, execute).routes()
    app = Starlette(
        routes=[_exact(one) for one in (*data, *control, *observer.routes(shell))],
        middleware=_layers(settings, shell, observer, control),
        exception_handlers={
            **dict.fromkeys(_DETAILED, _detailed),
            DecodeError: _counted(undecodable, observer),
            SchemaError: _counted(malformed, observer),
            SessionConflictError: _counted(_conflicting, observer),
            ClientDisconnect: _unanswered,
            Exception: _failed,
        },
        lifespan=_lifespan(observer),
    )
    app.router.redirect_slashes = False
    return app


def _exact(route: Route) -> Route:
    # The framework's patterns end in "$", which a final newline in the path may follow.
    pattern = route.path_regex.pattern.removesuffix("$")
    route.path_regex = re.compile(rf"{pattern}\Z")
    return route


def _observer(settings: ServerSettings) -> Observer:
    if not settings.metrics:
        return Observer()
    from ipistate.server.metrics import Metrics  # noqa: PLC0415 - an extra's module

    return Metrics(settings.tools)


def _layers(
    settings: ServerSettings, shell: Shell, observer: Observer, control: list[Route]
) -> list[Middleware]:
    token = settings.checkpoint_token
    secret = settings.cookie_secret or settings.cookie_name
    cookie = SessionCookie(settings.cookie_name, str(secret))
    layers = [
        Middleware(PrefixLayer, observer=observer),
        Middleware(SessionLayer, cookie=cookie),
        Middleware(GateLayer, shell=shell, seed_headers=token is not None),
        Middleware(BodyLimitLayer, max_body_size=settings.max_body_bytes),
    ]
    if token is not None:
        guard = Middleware(TokenLayer, token=token, routes=control, observer=observer)
        layers.insert(2, guard)
    return layers


def _lifespan(
    observer: Observer,
) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        with observer.watching():
            yield

    return lifespan


def _counted(answer: Answer, observer: Observer) -> Answer:
    async def counted(request: Request, error: Exception) -> Response:
        if isinstance(error, IpiStateError):
            observer.refused(error.code)
        return await answer(request, error)

    return counted


async def _detailed(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return detail(error.status_code, error.detail, error.headers)


async def _conflicting(_: Request, error: Exception) -> Response:
    if not isinstance(error, SessionConflictError):
        raise error
    return detail(409, error.message)


class _NoResponse(Response):
    async def __call__(self, *_: object) -> None:
        pass


async def _unanswered(_: Request, __: Exception) -> Response:
    # Nobody is left to answer.
    return _NoResponse()


async def _failed(_: Request, error: Exception) -> Response:
    return json_reply(repr(error), 500)
