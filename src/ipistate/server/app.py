"""The application: routes, middleware in their order, and answers to errors."""

from __future__ import annotations

import re
import time

from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware

from ipistate.protocol import METRICS_PATH
from ipistate.server.adapter.control_plane import ControlPlane
from ipistate.server.adapter.cookies import SessionCookie, SessionLayer
from ipistate.server.adapter.data_plane import DataPlane
from ipistate.server.adapter.gate import GateLayer
from ipistate.server.adapter.hot_path import ToolCallLayer
from ipistate.server.adapter.prefix import PrefixLayer
from ipistate.server.adapter.token import TokenLayer
from ipistate.server.extension.routes import Extension
from ipistate.server.hosts import HostLayer
from ipistate.server.live.lifespan import lifespan_of
from ipistate.server.live.shell import Shell
from ipistate.server.operating.observer import Observer
from ipistate.server.operating.settings import ServerSettings
from ipistate.server.replies import ANSWERED, Answers
from ipistate.server.uploads import BodyLimitLayer, Uploads, WholeBodyLayer
from ipistate.tools import call_tool


if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.routing import Route

_DETAILED: Final = (400, 404, 405)
"""Statuses of the framework whose replies have its JSON form."""


def create_app(
    settings: ServerSettings | None = None,
    *,
    clock: Callable[[], float] = time.time,
    steady: Callable[[], float] = time.monotonic,
) -> Starlette:
    """Build a server with no sessions.

    A request passes the rollout prefix, its session, the token if it is guarded, the
    limits of its body and the gate, in this order, before it reaches a route; see docs/reference/control-plane.md, sections 1 and 3.4.
    ``app.state.shell`` has the live sessions.

    Args:
        settings: What the operator has decided.
        clock: Seconds since the epoch.
        steady: Seconds of a clock that is never set, for idle sessions.
    """
    settings = settings or ServerSettings()
    observer = _observer(settings)
    answers = Answers(observer, hints=not settings.hardened)
    run = observer.counting(call_tool)
    shell = Shell(settings, observer, clock, steady)
    secret = str(settings.cookie_secret or settings.cookie_name)
    cookie = SessionCookie(settings.cookie_name, secret, clock)
    data = DataPlane(settings, shell.sessions, shell.prefixes, run)
    guarded = ControlPlane(shell, settings).routes()
    if settings.extension:
        guarded += Extension(settings, shell, run, cookie).routes()
    routes = [_exact(r) for r in (*data.routes(), *guarded, *observer.routes(shell))]
    uploads = Uploads(settings.max_uploads_bytes)
    has_token = settings.checkpoint_token is not None
    app = Starlette(
        routes=routes,
        middleware=[
            *_hosts(settings, observer),
            Middleware(
                ToolCallLayer,
                shell=shell,
                cookie=cookie,
                answers=answers,
                data=data,
                max_body_size=settings.max_body_bytes,
            ),
            *_layers(settings, observer, cookie, guarded),
            Middleware(
                WholeBodyLayer, uploads=uploads, routes=routes, answer=answers.to
            ),
            Middleware(GateLayer, shell=shell, seed_headers=has_token),
        ],
        exception_handlers=dict.fromkeys((*_DETAILED, *ANSWERED, Exception), answers),
        lifespan=lifespan_of(observer, shell, settings.idle_seconds),
    )
    app.router.redirect_slashes = False
    app.state.shell = shell
    app.state.uploads = uploads
    return app


def _hosts(settings: ServerSettings, observer: Observer) -> list[Middleware]:
    hosts = settings.allowed_hosts
    if hosts is None or "*" in hosts:
        return []
    return [Middleware(HostLayer, hosts=hosts, observer=observer)]


def _exact(route: Route) -> Route:
    # The framework's patterns end in "$", which a final newline in the path may follow.
    pattern = route.path_regex.pattern.removesuffix("$")
    route.path_regex = re.compile(rf"{pattern}\Z")
    return route


def _observer(settings: ServerSettings) -> Observer:
    if not settings.metrics:
        return Observer()
    from ipistate.server.operating.metrics import Metrics  # noqa: PLC0415 - an extra's module

    return Metrics(settings.tools)


def _layers(
    settings: ServerSettings,
    observer: Observer,
    cookie: SessionCookie,
    guarded: list[Route],
) -> list[Middleware]:
    token = settings.checkpoint_token
    layers = [
        Middleware(PrefixLayer, observer=observer),
        Middleware(SessionLayer, cookie=cookie),
        Middleware(
            BodyLimitLayer,
            max_body_size=settings.max_body_bytes,
            others={METRICS_PATH: settings.max_metrics_bytes},
        ),
    ]
    if token is not None:
        guard = Middleware(TokenLayer, token=token, routes=guarded, observer=observer)
        layers.insert(2, guard)
    return layers
