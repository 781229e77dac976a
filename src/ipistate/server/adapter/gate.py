"""The gate that holds data requests while a checkpoint is open.

See docs/reference/control-plane.md, section 3.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ipistate.protocol import (
    CONTROL_PREFIX,
    SEED_PATH,
    SESSION_MEMBER,
    VERIFY_MODE_HEADER,
    Refuse,
)
from ipistate.server.replies import refused


if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ipistate.server.live.shell import Passage, Shell

PASSAGE: Final = "ipistate.passage"
"""Where the scope of a request has its passage, for handlers that make sessions."""

_VERIFY_WAITS: Final = (VERIFY_MODE_HEADER.encode(), b"wait")


class GateLayer:
    """ASGI middleware between the session layer and the routes.

    A request counts as ended when its handler has answered, before the answer is sent:
    its effect is complete then, and a slow reader holds up no checkpoint.
    """

    def __init__(self, app: ASGIApp, shell: Shell, seed_headers: bool) -> None:  # noqa: FBT001 - one of many settings
        self._app = app
        self._shell = shell
        self._seed_headers = [_VERIFY_WAITS] if seed_headers else []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(CONTROL_PREFIX):
            await self._app(scope, receive, send)
            return
        self._shell.prefixes.join(scope)
        # Reading changes nothing, so it needs no gate: a prepare waits for what could
        # still change a session, and a probe must be answered while it waits.
        if scope["method"] in {"GET", "HEAD"}:
            await self._app(scope, receive, send)
            return
        path, episode = scope["path"], scope["episode"]
        session_id = scope["session"][SESSION_MEMBER]
        objection = self._shell.prefixes.objection(path, session_id, episode)
        if objection is not None:
            await refused(*objection)(scope, receive, send)
            return
        passage = self._shell.arrive(path, session_id, episode)
        scope[PASSAGE] = passage
        try:
            receive = await self._shell.answered(passage, receive)
            answer = passage.answer
            if isinstance(answer, Refuse):
                reply = refused(answer.code, answer.detail, answer.status)
                await reply(scope, receive, send)
            elif answer is not None:
                # While it waited, the same seed may have come and gone before it.
                self._shell.prefixes.join(scope)
                await self._app(scope, receive, self._ending(scope, passage, send))
        finally:
            # After any failure the request is over: one that stayed counted would
            # let no prepare ever end. After an answer this does nothing.
            self._shell.end(passage, None, scope["session"][SESSION_MEMBER])

    def _ending(self, scope: Scope, passage: Passage, send: Send) -> Send:
        headers = self._seed_headers if scope["path"] == SEED_PATH else []

        async def send_ended(message: Message) -> None:
            if message["type"] == "http.response.start":
                session_id = scope["session"][SESSION_MEMBER]
                self._shell.end(passage, message["status"], session_id)
                message["headers"] = [*message["headers"], *headers]
            await send(message)

        return send_ended
