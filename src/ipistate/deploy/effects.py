"""Requests to other servers, as data, made once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from starlette.responses import Response

from ipistate.clients import JSON, Bounds, HttpError
from ipistate.kernel import JsonObject, encode
from ipistate.protocol import (
    EffectFault,
    EffectReply,
    EffectRequest,
    FaultKind,
    ServerRole,
)
from ipistate.server import json_reply


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ipistate.clients import HttpClient

MAX_REPLY_BYTES: Final = 64 * 2**20
"""A response with its trace is far smaller."""

_BOUNDS: Final = Bounds(size=MAX_REPLY_BYTES, total=24 * 60 * 60, connect=10.0)


@attrs.frozen
class EffectSender:
    """Makes the requests of episodes.

    How long one may take is the episode's budget to say, not the connection's.

    Args:
        client: Connections; it keeps no cookies.
        bases: Where the servers are.
    """

    client: HttpClient
    bases: Mapping[ServerRole, str]

    async def send(self, request: EffectRequest) -> EffectReply | EffectFault:
        """Make a request, and return its whole reply or why there is none."""
        headers = {**JSON, **texts_of(request.headers)}
        try:
            answer = await self.client.send(
                request.method,
                self.bases[request.server],
                request.path,
                encode(request.body),
                bounds=_BOUNDS,
                headers=headers,
                cookies=texts_of(request.cookies),
            )
        except HttpError as error:
            is_lost = error.code in {"unreachable", "timed_out"}
            kind = FaultKind.CONNECTION if is_lost else FaultKind.PAYLOAD
            return EffectFault(kind, error.message)
        return EffectReply(
            status=answer.status,
            body=answer.content,
            headers={name.lower(): one for name, one in answer.headers.items()},
            cookies=JsonObject(answer.cookies),
        )


async def forwarded(sender: EffectSender, path: str, body: JsonObject) -> Response:
    """Have the resources server answer a request."""
    request = EffectRequest(server=ServerRole.RESOURCES, path=path, body=body)
    reply = await sender.send(request)
    if isinstance(reply, EffectFault):
        document = JsonObject({"detail": f"the resources server: {reply.detail}"})
        return json_reply(document, 502)
    return Response(reply.body, reply.status, media_type="application/json")


def texts_of(members: JsonObject) -> dict[str, str]:
    """Return the members that are texts, as headers and cookies are."""
    return {name: value for name, value in members.items() if isinstance(value, str)}
