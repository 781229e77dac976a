"""The control plane's routes (spec control-plane, section 2)."""

from __future__ import annotations

import hmac

from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect
from starlette.routing import Route

from ipistate.checkpoint.operations import OPERATIONS
from ipistate.codec import decode
from ipistate.schema import structure
from ipistate.server.bodies import json_body
from ipistate.server.replies import json_reply, refused


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.datastructures import Secret
    from starlette.requests import Request
    from starlette.responses import Response

    from ipistate.checkpoint.operations import Operation
    from ipistate.server.shell import Shell

PREFIX: Final = "/ng-control/v1/checkpoint"


class ControlPlane:
    """Handlers for the holder of the token; everybody else is refused first."""

    def __init__(self, shell: Shell, token: Secret) -> None:
        self._shell = shell
        self._authorization = f"Bearer {token}".encode("ascii")

    def routes(self) -> list[Route]:
        """Return one route for each operation."""
        operations = [
            Route(f"{PREFIX}/{name}", self._operation(body), methods=["POST"])
            for name, body in OPERATIONS.items()
        ]
        return [Route(f"{PREFIX}/status", self.status, methods=["GET"]), *operations]

    async def status(self, request: Request) -> Response:
        """Describe the participant; never waits."""
        return self._refusal(request) or json_reply(self._shell.status())

    def _operation(
        self, body: type[Operation]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def operate(request: Request) -> Response:
            refusal = self._refusal(request)
            if refusal is not None:
                return refusal
            operation = structure(decode(await json_body(request)), body)
            reply = await self._shell.operate(operation, request.receive)
            if reply is None:
                raise ClientDisconnect
            return json_reply(reply.document, reply.status)

        return operate

    def _refusal(self, request: Request) -> Response | None:
        given = request.headers.get("authorization", "").encode("latin-1")
        if hmac.compare_digest(given, self._authorization):
            return None
        return refused("unauthorized", "the control plane needs its bearer token")
