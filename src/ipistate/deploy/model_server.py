"""A policy model: a server in front of an endpoint, with the capture ledger's routes.

See docs/reference/control-plane.md, section 6.
"""

from __future__ import annotations

import hmac
import time

from typing import TYPE_CHECKING, Final

from starlette.routing import Route

from ipistate.clients import HttpClient
from ipistate.deploy.model_shell import CALL_PATHS, ModelSettings, ModelShell
from ipistate.errors import DataError, SchemaError
from ipistate.kernel import JsonObject
from ipistate.protocol import CAPTURE_SEGMENT
from ipistate.server import json_object, json_reply, participant_app
from ipistate.storage import LedgerError, checked_keys


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

LEDGER_PATH: Final = "/training-token-capture/control/rollouts"


class LedgerRoutes:
    """The ledger, for holders of the control token. Their errors have ``detail`` only."""

    def __init__(self, shell: ModelShell, settings: ModelSettings) -> None:
        self._shell = shell
        self._token = f"Bearer {settings.server.checkpoint_token}".encode()

    def routes(self) -> list[Route]:
        """Return the three routes."""
        return [
            Route(f"{LEDGER_PATH}/{{key}}/manifest", self.manifest, methods=["GET"]),
            Route(f"{LEDGER_PATH}/retire", self.retire, methods=["POST"]),
            Route(f"{LEDGER_PATH}/delete", self.delete, methods=["POST"]),
        ]

    async def manifest(self, request: Request) -> Response:
        """Write the manifest of a capture key."""
        if not self._is_authorized(request):
            return _detail(401, "this route needs the server's bearer token")
        ledger = self._shell.ledger
        if ledger is None:
            return _detail(404, "this server has no ledger")
        key = request.path_params["key"]
        try:
            return json_reply(ledger.manifest(key))
        except SchemaError as error:
            return _detail(400, f"{key!a}: {error.message}")
        except LedgerError as error:
            return _detail(410 if error.code == "is_retired" else 500, error.message)

    async def retire(self, request: Request) -> Response:
        """Fence capture keys and remove their rows."""
        return await self._remove(request, "retire")

    async def delete(self, request: Request) -> Response:
        """Remove the rows and fences of capture keys."""
        return await self._remove(request, "delete")

    async def _remove(self, request: Request, operation: str) -> Response:
        if not self._is_authorized(request):
            return _detail(401, "this route needs the server's bearer token")
        ledger = self._shell.ledger
        if ledger is None:
            return _detail(404, "this server has no ledger")
        try:
            document = await json_object(request)
            keys = checked_keys(document.get("rollout_ids"))
        except DataError as error:
            return _detail(400, f"rollout_ids: {error}")
        # A commit still reads every live episode's ledger.
        if self._shell.machine.participant.control.open is not None:
            return _detail(409, "a checkpoint is open; send it again after that")
        removal = ledger.retire(keys) if operation == "retire" else ledger.delete(keys)
        return json_reply(
            JsonObject({"removed": removal.removed, "absent": removal.absent})
        )

    def _is_authorized(self, request: Request) -> bool:
        given = request.headers.get("authorization", "").encode()
        return hmac.compare_digest(given, self._token)


def _detail(status: int, text: str) -> Response:
    return json_reply(JsonObject({"detail": text}), status)


def create_model_app(
    settings: ModelSettings,
    *,
    client: HttpClient | None = None,
    clock: Callable[[], float] = time.time,
    steady: Callable[[], float] = time.monotonic,
) -> Starlette:
    """Build a policy model that has served no call.

    ``app.state.shell`` is its shell. The ledger's routes exist with a control token.

    Args:
        settings: What the operator has decided.
        client: Connections to the endpoint; without them it makes its own.
        clock: Seconds since the epoch.
        steady: Seconds of a clock that is never set.
    """
    connections = client or HttpClient()
    shell = ModelShell(settings, connections, clock, steady)

    def calling(path: str) -> Callable[[Request], Awaitable[Response]]:
        async def call(request: Request) -> Response:
            return await shell.call(request, path)

        return call

    routes = [
        Route(prefix + path, calling(path), methods=["POST"])
        for path in CALL_PATHS
        for prefix in ("", CAPTURE_SEGMENT)
    ]
    if settings.server.checkpoint_token is not None:
        routes += LedgerRoutes(shell, settings).routes()
    app = participant_app(settings.server, shell.machine, routes, [connections])
    app.state.shell = shell
    return app
