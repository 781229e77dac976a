"""The application: routes, middleware in their order, and answers to errors."""

from __future__ import annotations

import asyncio
import re

from collections.abc import Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from ipistate.errors import DecodeError, IpiStateError, SchemaError
from ipistate.protocol import refusal
from ipistate.server.bodies import BodyLimitLayer, malformed, undecodable
from ipistate.server.control import ControlPlane
from ipistate.server.cookies import SessionCookie, SessionLayer
from ipistate.server.dataplane import DataPlane
from ipistate.server.extension import Extension, KeyHeaderError, QueryError
from ipistate.server.gate import GateLayer
from ipistate.server.keeping import Histories, keeping_of
from ipistate.server.observer import Observer
from ipistate.server.prefix import PrefixLayer
from ipistate.server.replies import detail, invalid, json_reply
from ipistate.server.sessions import SessionConflictError, SessionsFullError
from ipistate.server.settings import ServerSettings
from ipistate.server.shell import Shell
from ipistate.server.token import TokenLayer
from ipistate.sessions import IdempotencyError, SessionRangeError
from ipistate.tools import call_tool


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from typing import TypeAlias

    from starlette.requests import Request
    from starlette.routing import Route

    Answer: TypeAlias = Callable[[Request, Exception], Awaitable[Response]]

_DETAILED: Final = (400, 404, 405)
_SHORTEST_PAUSE: Final = 0.1
"""Seconds between two sweeps, however short the idle time is."""
_STATUS_OF: Final[Mapping[type[Exception], int]] = MappingProxyType(
    {
        IdempotencyError: 409,
        KeyHeaderError: 400,
        SessionRangeError: 409,
        SessionsFullError: 503,
    }
)


def create_app(settings: ServerSettings | None = None) -> Starlette:
    """Build a server with no sessions.

    A request passes the rollout prefix, its session, the token if it is guarded, the
    gate and the body limit, in this order, before it reaches a route; see
    docs/reference/control-plane.md, sections 1 and 3.4.
    """
    settings = settings or ServerSettings()
    observer = _observer(settings)
    keeping = keeping_of(settings, observer.counting(call_tool))
    shell = Shell(settings, keeping, observer)
    cookie = _cookie(settings)
    data = DataPlane(settings, shell.sessions, keeping).routes()
    guarded = ControlPlane(shell, settings).routes()
    if isinstance(keeping, Histories):
        guarded += Extension(settings, shell, keeping, cookie).routes()
    app = Starlette(
        routes=[_exact(one) for one in (*data, *guarded, *observer.routes(shell))],
        middleware=_layers(settings, shell, observer, cookie, guarded),
        exception_handlers={
            **dict.fromkeys(_DETAILED, _detailed),
            DecodeError: _counted(undecodable, observer),
            SchemaError: _counted(malformed, observer),
            QueryError: _counted(_misasked, observer),
            SessionConflictError: _counted(_conflicting, observer),
            **{kind: _counted(_refused, observer) for kind in _STATUS_OF},
            ClientDisconnect: _unanswered,
            Exception: _failed,
        },
        lifespan=_lifespan(observer, shell, settings.idle_seconds),
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


def _cookie(settings: ServerSettings) -> SessionCookie:
    secret = settings.cookie_secret or settings.cookie_name
    return SessionCookie(settings.cookie_name, str(secret))


def _layers(
    settings: ServerSettings,
    shell: Shell[Any],
    observer: Observer,
    cookie: SessionCookie,
    guarded: list[Route],
) -> list[Middleware]:
    token = settings.checkpoint_token
    layers = [
        Middleware(PrefixLayer, observer=observer),
        Middleware(SessionLayer, cookie=cookie),
        Middleware(GateLayer, shell=shell, seed_headers=token is not None),
        Middleware(BodyLimitLayer, max_body_size=settings.max_body_bytes),
    ]
    if token is not None:
        guard = Middleware(TokenLayer, token=token, routes=guarded, observer=observer)
        layers.insert(2, guard)
    return layers


def _lifespan(
    observer: Observer, shell: Shell[Any], idle_seconds: float | None
) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        with observer.watching():
            if idle_seconds is None:
                yield
                return
            pause = max(idle_seconds / 4, _SHORTEST_PAUSE)
            sweeping = asyncio.ensure_future(_sweeping(shell, pause))
            yield
            sweeping.cancel()

    return lifespan


async def _sweeping(shell: Shell[Any], pause: float) -> None:
    while True:
        await asyncio.sleep(pause)
        shell.sweep()


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


async def _misasked(_: Request, error: Exception) -> Response:
    if not isinstance(error, QueryError):
        raise error
    return invalid(error.problems, "query")


async def _conflicting(_: Request, error: Exception) -> Response:
    if not isinstance(error, SessionConflictError):
        raise error
    return detail(409, error.message)


async def _refused(_: Request, error: Exception) -> Response:
    if not isinstance(error, IpiStateError):
        raise error
    return json_reply(refusal(error.code, error.message), _STATUS_OF[type(error)])


class _NoResponse(Response):
    async def __call__(self, *_: object) -> None:
        pass


async def _unanswered(_: Request, __: Exception) -> Response:
    # Nobody is left to answer.
    return _NoResponse()


async def _failed(_: Request, error: Exception) -> Response:
    return json_reply(repr(error), 500)
