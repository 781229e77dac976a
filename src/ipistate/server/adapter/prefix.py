"""The rollout prefix ``/ng-rollout/<capture key>`` (docs/reference/control-plane.md, section 1.3)."""

from __future__ import annotations

import re

from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ipistate.errors import SchemaError
from ipistate.protocol import ROLLOUT_PREFIX, EpisodeId
from ipistate.server.replies import refused


if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ipistate.server.operating.observer import Observer

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
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["episode"] = None
        if scope["path"].startswith(ROLLOUT_PREFIX):
            try:
                path, scope["episode"] = split_prefix(scope["path"])
            except SchemaError as error:
                self._observer.refused(error.code)
                reply = refused(error.code, error.message)
                await reply(scope, receive, send)
                return
            if scope["episode"] is not None:
                scope["path"], scope["raw_path"] = path, quote(path).encode()
        await self._app(scope, receive, send)


def split_prefix(path: str) -> tuple[str, EpisodeId | None]:
    """Split a path into the path proper and the episode that its prefix names.

    Raises:
        SchemaError: ``invalid_rollout_id``: no episode has the key.
    """
    match = _PREFIXED.fullmatch(path)
    if match is None:
        return path, None
    return match["rest"], _episode(match["key"])


# Every call of a rollout has the same prefix; refusals are not remembered.
_episode: Final = lru_cache(4_096)(EpisodeId.from_capture_key)
