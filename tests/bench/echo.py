"""The floor of the HTTP rows: Starlette that sends back the body it got.

It has the server's own cookie layer and the server's own uvicorn settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from ipistate.server import serve
from ipistate.server.cookies import SessionCookie, SessionLayer
from ipistate.server.settings import ServerSettings


if TYPE_CHECKING:
    from starlette.requests import Request


async def echo(request: Request) -> Response:
    """Answer with the request's body."""
    return Response(await request.body(), media_type="application/json")


def main() -> None:
    """Serve on a free port, announced as the server announces its own."""
    settings = ServerSettings()
    cookie = SessionCookie(settings.cookie_name, settings.cookie_name)
    serve.create_app = lambda _: Starlette(
        routes=[Route("/{anything:path}", echo, methods=["POST"])],
        middleware=[Middleware(SessionLayer, cookie=cookie)],
    )
    serve.run(settings, "127.0.0.1", 0)


if __name__ == "__main__":
    main()
