"""An inference worker: chat completions from token ids, staged, and cut on demand.

See docs/reference/control-plane.md, section 6.
"""

from __future__ import annotations

import asyncio
import hmac

from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from starlette.responses import Response
from starlette.routing import Route

from ipistate.capture import CAPTURE_MEMBER, CutInventory
from ipistate.deploy.live_call import until_ended
from ipistate.deploy.worker_engine import EngineFailedError
from ipistate.deploy.worker_shell import WorkerShell
from ipistate.errors import IpiStateError
from ipistate.kernel import JsonObject, structure, unstructure
from ipistate.server import MAX_BODY_BYTES, json_object, json_reply, plain_app
from ipistate.storage import TokenStore


if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from starlette.applications import Starlette
    from starlette.datastructures import Secret
    from starlette.requests import Request

    from ipistate.deploy.worker_engine import Engine

CHAT_PATH: Final = "/v1/chat/completions"
CUT_PATH: Final = "/ng-control/v1/generation-cut"


@attrs.frozen(kw_only=True)
class WorkerSettings:
    """What the operator of a worker decides."""

    token_store: Path
    """The directory of staged tokens; it must outlive the deployment's processes."""
    cut_token: Secret | None = None
    """The bearer token of cuts; without it there are none."""
    max_body_bytes: int = MAX_BODY_BYTES
    """Of a request; a longer one is answered 413."""


class WorkerRoutes:
    """What a worker serves."""

    def __init__(self, shell: WorkerShell, settings: WorkerSettings) -> None:
        self._shell = shell
        self._token = settings.cut_token

    def routes(self) -> list[Route]:
        """Return the routes; without a token there is none for cuts."""
        found = [Route(CHAT_PATH, self.chat, methods=["POST"])]
        if self._token is not None:
            found.append(Route(CUT_PATH, self.cut, methods=["POST"]))
        return found

    async def chat(self, request: Request) -> Response:
        """Complete a chat."""
        try:
            body = await json_object(request)
        except IpiStateError as error:
            return _refused(400, error.code, error.message)
        if body.get("stream"):
            about = "captured" if CAPTURE_MEMBER in body else "completed"
            message = f"a stream cannot be {about}: leave out stream"
            return _refused(400, "stream_refused", message)
        completing = asyncio.ensure_future(self._shell.complete(body))
        await until_ended(completing, request)
        if completing.cancelled():
            return Response(status_code=499)  # nobody is there to read it
        try:
            return json_reply(completing.result())
        except EngineFailedError as error:
            return _refused(502, error.code, error.message)

    async def cut(self, request: Request) -> Response:
        """Stage what calls have by now."""
        given = request.headers.get("authorization", "").encode()
        if not hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            return _refused(401, "unauthorized", "cuts need the worker's bearer token")
        try:
            inventory = structure(await json_object(request), CutInventory)
        except IpiStateError as error:
            return _refused(400, error.code, str(error))
        return json_reply(unstructure(await self._shell.cut(inventory)))


def _refused(status: int, code: str, message: str) -> Response:
    return json_reply(
        JsonObject({"error": JsonObject({"code": code, "message": message})}), status
    )


def create_worker_app(
    settings: WorkerSettings,
    engine: Engine,
    *,
    beside: Sequence[AbstractAsyncContextManager[object]] = (),
) -> Starlette:
    """Build a worker in front of an engine; ``app.state.shell`` is its shell.

    Args:
        settings: What the operator has decided.
        engine: Completes from token ids.
        beside: Open while it serves, such as the engine's connections.
    """
    shell = WorkerShell(engine, TokenStore(settings.token_store))
    routes = WorkerRoutes(shell, settings).routes()
    app = plain_app(routes, beside=beside, max_body_bytes=settings.max_body_bytes)
    app.state.shell = shell
    return app
