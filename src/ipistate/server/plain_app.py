"""The application of any server beside the resources server: bounded, alive, and answering."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from ipistate.kernel import JsonObject
from ipistate.protocol import LIVENESS_PATHS
from ipistate.server.operating.observer import Observer
from ipistate.server.replies import ANSWERED, Answers, json_reply
from ipistate.server.uploads import BodyLimitLayer


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from contextlib import AbstractAsyncContextManager

    from starlette.requests import Request
    from starlette.responses import Response

MAX_BODY_BYTES: Final = 32 * 2**20

_DETAILED: Final = (400, 404, 405)
_ALIVE: Final = JsonObject({"status": "ok"})


def plain_app(
    routes: Sequence[Route],
    *,
    beside: Sequence[AbstractAsyncContextManager[object]] = (),
    layers: Sequence[Middleware] = (),
    max_body_bytes: int = MAX_BODY_BYTES,
    observer: Observer | None = None,
) -> Starlette:
    """Build an application that says it is alive, and whose bodies are bounded.

    Args:
        routes: What it serves.
        beside: Open while it serves, such as its connections to others.
        layers: What a request passes first.
        max_body_bytes: Of a request; more is refused with 413.
        observer: Is told the codes of refusals.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            for one in beside:
                await stack.enter_async_context(one)
            yield

    limit = Middleware(BodyLimitLayer, max_body_size=max_body_bytes, others={})
    app = Starlette(
        routes=[
            *routes,
            *(Route(path, _alive, methods=["GET"]) for path in LIVENESS_PATHS),
        ],
        middleware=[*layers, limit],
        exception_handlers=dict.fromkeys(
            (*_DETAILED, *ANSWERED, Exception), Answers(observer or Observer())
        ),
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


async def _alive(_: Request) -> Response:
    return json_reply(_ALIVE)
