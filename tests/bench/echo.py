"""The floor of the HTTP rows: bare Starlette with Starlette's own session cookie.

It receives a body and answers as many bytes as the server does, on the same event loop
and parser. Usage: ``python echo.py /path=bytes ...``.
"""

from __future__ import annotations

import sys

from typing import TYPE_CHECKING
from uuid import uuid4

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.responses import Response
from starlette.routing import Route

from ipistate.server import ServerSettings, serve


if TYPE_CHECKING:
    from starlette.requests import Request


def main() -> None:
    """Serve on a free port, announced as the server announces its own."""
    sizes = dict(argument.split("=") for argument in sys.argv[1:])
    answers = {path: b"x" * int(size) for path, size in sizes.items()}

    async def echo(request: Request) -> Response:
        await request.body()
        request.session.setdefault("session_id", str(uuid4()))
        return Response(answers[request.url.path], media_type="application/json")

    app = Starlette(
        routes=[Route("/{anything}", echo, methods=["POST"])],
        middleware=[Middleware(SessionMiddleware, secret_key="bench")],
    )
    setattr(serve, "create_app", lambda _: app)  # noqa: B010 - what it serves
    serve.run(ServerSettings(), "127.0.0.1", 0)


if __name__ == "__main__":
    main()
