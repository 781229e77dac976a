"""The rollout prefix ``/ng-rollout/<capture key>`` (docs/reference/control-plane.md, section 1.3)."""

from __future__ import annotations

import re

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ipistate.errors import SchemaError
from ipistate.protocol import ROLLOUT_PREFIX, EpisodeId
from ipistate.server.replies import refused


if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ipistate.server.observer import Observer

_PREFIXED: Final = re.compile(
    rf"{ROLLOUT_PREFIX}(?P<key>[A-Za-z0-9][A-Za-z0-9._-]*)(?P<rest>/.*)"
)


class PrefixLayer:
    """ASGI middleware that turns the prefix into ``scope["episode"]``.

    A key that no episode has is refused: serving its seed without an episode would
    lose the session from every checkpoint.
    """

    def __init__(self, app: ASGIApp, observer: Observer) -> None:
        self._app = app
        self._observer = observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["episode"] = None
        if scope["path"].startswith(ROLLOUT_PREFIX):
            try:
                _rewrite(scope)
            except SchemaError as error:
                self._observer.refused(error.code)
                reply = refused(error.code, error.message)
                await reply(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _rewrite(scope: Scope) -> None:
    match = _PREFIXED.fullmatch(scope["path"])
    if match is not None:
        scope["episode"] = EpisodeId.from_capture_key(match["key"])
        scope["path"] = match["rest"]
        scope["raw_path"] = quote(match["rest"]).encode()
