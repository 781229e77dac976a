"""The live worlds, and the promises about sessions that callers name themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ipistate.errors import IpiStateError
from ipistate.server.pool import Recent


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ipistate.checkpoint.episode import EpisodeId
    from ipistate.environment import Environment
    from ipistate.server.seeds import NativeSession

CLOSED_BYTES: Final = 4 * 2**20
"""Size of the closed ids that are remembered, about 80,000 of them."""


class SessionConflictError(IpiStateError):
    """A session that its caller cannot open under this id."""


class Sessions:
    """Worlds by session id.

    A native seed that is repeated gives the session that exists; a closed id is never
    opened again (spec control-plane, section 1.5.1).

    Args:
        bound: Which episode a checkpointed session belongs to, if any.
    """

    def __init__(self, bound: Callable[[str], EpisodeId | None]) -> None:
        self._bound = bound
        self._worlds: dict[str, Environment] = {}
        self._opened: dict[str, EpisodeId] = {}
        self._closed: Recent[bool] = Recent(CLOSED_BYTES)

    def __len__(self) -> int:
        return len(self._worlds)

    def world(self, session_id: str) -> Environment | None:
        """Return a session's world, or None if it has none."""
        return self._worlds.get(session_id)

    def put(self, session_id: str, world: Environment) -> None:
        """Make this the session's world."""
        self._worlds[session_id] = world

    def install(self, worlds: Mapping[str, Environment]) -> None:
        """Make these the worlds of their sessions, all at once."""
        self._worlds.update(worlds)

    def held(self, session_ids: Iterable[str]) -> dict[str, Environment]:
        """Return those of these sessions that have a world."""
        worlds = self._worlds
        return {name: worlds[name] for name in session_ids if name in worlds}

    def drop(self, session_id: str) -> None:
        """Free a session's world; nothing happens if it has none."""
        self._worlds.pop(session_id, None)
        self._opened.pop(session_id, None)

    def open(self, native: NativeSession, world: Environment) -> None:
        """Start a session under the caller's id, unless it runs already.

        Raises:
            SessionConflictError: ``session_closed``: the id was closed;
                ``session_taken``: it is another episode's.
        """
        name = native.resources_session_id
        if name.encode() in self._closed:
            message = f"resources session {name} is closed"
            raise SessionConflictError("session_closed", message)
        if name not in self._worlds:
            self._worlds[name] = world
            self._opened[name] = native.episode_id
        elif not self._owns(native):
            message = f"resources session {name} is another episode's"
            raise SessionConflictError("session_taken", message)

    def close(self, native: NativeSession, session_id: str) -> str:
        """End a session and never open its native id again.

        A session that runs for another episode goes on, and its id stays open.

        Args:
            native: What the close request names; it goes first if it is the caller's.
            session_id: The session of the request's cookie.

        Returns:
            The id of the session that was ended.
        """
        name = native.resources_session_id
        ended = name if self._owns(native) else session_id
        self.drop(ended)
        if name not in self._worlds:
            self._closed.put(name.encode(), True)
        return ended

    def _owns(self, native: NativeSession) -> bool:
        name = native.resources_session_id
        episode = self._bound(name) or self._opened.get(name)
        return name in self._worlds and episode == native.episode_id
