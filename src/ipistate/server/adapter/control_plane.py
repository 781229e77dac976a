"""The control plane's routes (docs/reference/control-plane.md, section 2)."""

from __future__ import annotations

import logging

from time import perf_counter
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect
from starlette.routing import Route

from ipistate.kernel import structure
from ipistate.protocol import (
    CHECKPOINT_PATH,
    OPERATIONS,
    TIME_HEADER,
    check_deadline,
)
from ipistate.server.adapter.token import authorized
from ipistate.server.bodies import count_ids, json_object
from ipistate.server.live.participant_shell import code_of
from ipistate.server.replies import json_reply


if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ipistate.protocol import ControlBody, Reply
    from ipistate.server.adapter.token import Handler
    from ipistate.server.live.participant_shell import Controlled
    from ipistate.server.operating.settings import ServerSettings


_log: Final = logging.getLogger("ipistate.server.control")


class ControlPlane:
    """Handlers for token holders; calls without the token are refused first."""

    def __init__(self, shell: Controlled, settings: ServerSettings) -> None:
        self._shell = shell
        self._exists = settings.checkpoint_token is not None
        self._max_ids = settings.max_control_ids
        self._max_bytes = settings.max_control_bytes

    def routes(self) -> list[Route]:
        """Return one route for each operation, none without a token."""
        if not self._exists:
            return []
        operations = [
            Route(
                f"{CHECKPOINT_PATH}/{name}",
                authorized(self._operation(name, body)),
                methods=["POST"],
                max_body_size=self._max_bytes,
            )
            for name, body in OPERATIONS.items()
        ]
        status = Route(
            f"{CHECKPOINT_PATH}/status", authorized(self.status), methods=["GET"]
        )
        return [status, *operations]

    async def status(self, _: Request) -> Response:
        """Describe the participant; never waits."""
        return self._timed(json_reply(self._shell.status()))

    def _operation(self, name: str, body: type[ControlBody]) -> Handler:
        async def operate(request: Request) -> Response:
            document = await json_object(request)
            count_ids(document, self._max_ids)
            operation = structure(document, body)
            check_deadline(operation, self._shell.time())
            began = perf_counter()
            reply = await self._shell.operate(operation, request.receive)
            _note(name, operation, reply, perf_counter() - began)
            if reply is None:
                raise ClientDisconnect
            return self._timed(json_reply(reply.document, reply.status))

        return operate

    def _timed(self, response: Response) -> Response:
        # A controller on a machine with another clock can then say deadlines in ours.
        response.headers[TIME_HEADER] = f"{self._shell.time():.3f}"
        return response


def _note(name: str, body: ControlBody, reply: Reply | None, seconds: float) -> None:
    status = None if reply is None else reply.status
    code = None if reply is None else code_of(reply)
    outcome = "its caller went away" if status is None else code or status
    _log.log(
        logging.INFO if status == 200 else logging.WARNING,
        "%s of checkpoint %s: %s",
        name,
        body.checkpoint_id,
        outcome,
        extra={
            "operation": name,
            "checkpoint_id": body.checkpoint_id,
            "status": status,
            "code": code,
            "seconds": round(seconds, 6),
        },
    )
