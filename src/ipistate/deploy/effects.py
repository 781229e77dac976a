"""Requests to other servers, as data, made once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from ipistate.clients import JSON, Bounds, HttpError
from ipistate.kernel import JsonObject, encode
from ipistate.protocol import EffectFault, EffectReply, FaultKind


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ipistate.clients import HttpClient
    from ipistate.protocol import EffectRequest, ServerRole

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
        headers = {**JSON, **_texts(request.headers)}
        try:
            answer = await self.client.send(
                request.method,
                self.bases[request.server],
                request.path,
                encode(request.body),
                bounds=_BOUNDS,
                headers=headers,
                cookies=_texts(request.cookies),
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


def _texts(members: JsonObject) -> dict[str, str]:
    return {name: value for name, value in members.items() if isinstance(value, str)}
