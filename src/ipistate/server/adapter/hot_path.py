"""The way of a tool call, from the ASGI scope to the reply, in one function.

Nearly all requests are tool calls, and a router, a request object and a response object
cost more than the tool. This layer serves the usual call by itself and hands everything
else to the application behind it, which answers the same calls with the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import uuid4

from ipistate.errors import SchemaError
from ipistate.protocol import (
    RESERVED_NAMES,
    ROLLOUT_PREFIX,
    SESSION_MEMBER,
    is_session_id,
)
from ipistate.server.adapter.cookies import VARY
from ipistate.server.adapter.prefix import split_prefix
from ipistate.server.bodies import arguments_of
from ipistate.server.replies import ANSWERED
from ipistate.server.uploads import again


if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ipistate.protocol import EpisodeId
    from ipistate.server.adapter.cookies import SessionCookie
    from ipistate.server.adapter.data_plane import DataPlane
    from ipistate.server.live.shell import Shell
    from ipistate.server.replies import Answers

_Head: TypeAlias = "tuple[str, EpisodeId | None, dict[str, Any]]"
"""A tool's name, the episode of the rollout prefix, and what the cookie holds."""

_JSON: Final = (b"content-type", b"application/json")
_LENGTH_DIGITS: Final = 18


class ToolCallLayer:
    """ASGI middleware outside of all others.

    Args:
        app: Serves what is not the usual tool call.
        shell: Has the gate.
        data: Makes the call.
        cookie: Reads and writes the session cookie.
        answers: Answers errors.
        max_body_size: Bytes up to which a body is served here.
    """

    def __init__(  # noqa: PLR0913 - what the layers behind it have between them
        self,
        app: ASGIApp,
        *,
        shell: Shell,
        data: DataPlane,
        cookie: SessionCookie,
        answers: Answers,
        max_body_size: int,
    ) -> None:
        self._app = app
        self._shell = shell
        self._data = data
        self._cookie = cookie
        self._answers = answers
        self._max_body_size = max_body_size

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = self._usual(scope)
        if head is None:
            await self._app(scope, receive, send)
            return
        name, episode, session = head
        received = await receive()
        if received["type"] != "http.request" or received.get("more_body", False):
            # What is still on its way is counted and limited on the other way.
            await self._app(scope, again(received, receive), send)
            return
        session_id = session.get(SESSION_MEMBER, "")
        is_new, lost = not is_session_id(session_id), False
        if is_new:
            found = self._shell.prefixes.session(f"/{name}", episode, is_new=True)
            lost = not (session or found) and self._cookie.stands_in(scope)
            session_id = session[SESSION_MEMBER] = found or str(uuid4())
        number = self._shell.enter(f"/{name}", session_id, episode)
        if number is None:
            # It is refused or has to wait, which the gate of the other way can do.
            await self._app(scope, again(received, receive), send)
            return
        status = None
        try:
            arguments = arguments_of(received.get("body", b""))
            body = self._data.called(session_id, name, arguments, is_new=is_new)
            status, headers = 200, [(b"content-length", b"%d" % len(body)), _JSON]
        except ANSWERED as error:
            reply = self._answers.to(error)
            status, headers = reply.status_code, reply.raw_headers
            body = bytes(reply.body)
        finally:
            # Before the reply is sent: the call's effect is complete, and a slow reader
            # must not hold up a checkpoint.
            self._shell.leave(number, status, session_id)
        headers.append(VARY)
        if not lost:
            headers.append((b"set-cookie", self._cookie.write(session)))
        await send(
            {"type": "http.response.start", "status": status, "headers": headers}
        )
        await send({"type": "http.response.body", "body": body})

    def _usual(self, scope: Scope) -> _Head | None:
        """Read the head of a request; None if it is not that of a usual tool call."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["root_path"]:
            return None
        fields: dict[bytes, bytes] = dict(scope["headers"])
        length = fields.get(b"content-length", b"")
        if (
            len(fields) != len(scope["headers"])  # which of two counts, others decide
            or fields.get(b"content-type") != b"application/json"
            or b"transfer-encoding" in fields
            or not length.isdigit()
            or len(length) > _LENGTH_DIGITS
            or int(length) > self._max_body_size
        ):
            return None
        path, episode = scope["path"], None
        if path.startswith(ROLLOUT_PREFIX):
            try:
                path, episode = split_prefix(path)
            except SchemaError:
                return None
        name = path[1:]
        if not name or "/" in name or name in RESERVED_NAMES or path[0] != "/":
            return None
        cookie = fields.get(b"cookie")
        return name, episode, self._cookie.session(() if cookie is None else (cookie,))
