"""The live sessions, the promises about those that callers name, and their last uses."""

from __future__ import annotations

import time

from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING, Final

from ipistate.errors import IpiStateError
from ipistate.kernel import identical
from ipistate.server.live.recent import Recent


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ipistate.kernel import Environment
    from ipistate.protocol import EpisodeId
    from ipistate.server.live.seeds import NativeSession
    from ipistate.sessions import Session

CLOSED_BYTES: Final = 4 * 2**20
"""Size of the closed ids that are remembered, about 80,000 of them; of swept ones, too."""


class SessionConflictError(IpiStateError):
    """A session that its caller cannot open under this id."""


class NotSeededError(Exception):
    """A request that needs a session and has none.

    Args:
        hint: Why, for clients; models read a fixed text.
    """

    def __init__(self, hint: str) -> None:
        super().__init__(hint)
        self.hint = hint


class SessionsFullError(IpiStateError):
    """There is no room for another session now."""


def _nothing() -> None:
    """Make no room."""


class Sessions:
    """The live sessions, by their ids.

    A native seed that is repeated gives the session that exists; a closed id is never
    opened again (docs/reference/control-plane.md, section 1.5.1).

    Args:
        bound: Which episode a checkpointed session belongs to, if any.
        session_of: The one session of an episode, if there is one.
        limit: How many sessions there may be.
        make_room: Is called when there are too many, and may drop some.
    """

    def __init__(
        self,
        bound: Callable[[str], EpisodeId | None],
        session_of: Callable[[EpisodeId], str | None],
        limit: float = inf,
        make_room: Callable[[], None] = _nothing,
    ) -> None:
        self._bound = bound
        self._session_of = session_of
        self._limit = limit
        self._make_room = make_room
        self._states: dict[str, Session] = {}
        self._opened: dict[str, tuple[EpisodeId, Environment]] = {}
        self._closed: Recent[bool] = Recent(CLOSED_BYTES)
        self._swept: Recent[bool] = Recent(CLOSED_BYTES)

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._states

    def get(self, session_id: str) -> Session | None:
        """Return a session, or None if there is none."""
        return self._states.get(session_id)

    def require(self, session_id: str, *, is_new: bool) -> Session:
        """Return a session that a request needs.

        Args:
            session_id: Its id.
            is_new: Whether no cookie came with the request.

        Raises:
            NotSeededError: There is none.
        """
        session = self._states.get(session_id)
        if session is not None:
            return session
        if is_new:
            raise NotSeededError("no valid session cookie came with the request")
        if session_id.encode() in self._swept:
            hint = "the cookie's session was unused for too long and has been freed"
            raise NotSeededError(hint)
        raise NotSeededError("the cookie's session has no world")

    def put(self, session_id: str, state: Session) -> None:
        """Keep this of a session that exists."""
        self._states[session_id] = state

    def start(self, states: Mapping[str, Session]) -> None:
        """Start sessions, or start them afresh: all of them or none.

        Raises:
            SessionsFullError: ``too_many_sessions``.
        """
        self.require_room(states)
        self.install(states)

    def install(self, states: Mapping[str, Session]) -> None:
        """Keep these of their sessions, all at once, however many there are."""
        self._states.update(states)
        for session_id in states:
            self._swept.discard(session_id.encode())

    def require_room(self, session_ids: Iterable[str]) -> None:
        """Make room for sessions, of which some may exist.

        Raises:
            SessionsFullError: ``too_many_sessions``.
        """
        new = sum(session_id not in self for session_id in session_ids)
        if new and len(self) + new > self._limit:
            self._make_room()
            if len(self) + new > self._limit:
                message = f"there are {len(self)} sessions, the limit is {self._limit}"
                raise SessionsFullError("too_many_sessions", message)

    def held(self, session_ids: Iterable[str]) -> dict[str, Session]:
        """Return what is kept of those of these sessions that exist."""
        states = self._states
        return {name: states[name] for name in session_ids if name in states}

    def sweep(self, session_ids: Iterable[str]) -> int:
        """Drop idle sessions and remember that; returns how many there were."""
        dropped = self.held(session_ids)
        for session_id in dropped:
            self.drop(session_id)
            self._swept.put(session_id.encode(), True)
        return len(dropped)

    def drop(self, session_id: str) -> None:
        """Free a session; nothing happens if there is none."""
        self._states.pop(session_id, None)
        self._opened.pop(session_id, None)

    def open(self, native: NativeSession, state: Session) -> None:
        """Start a session under the caller's id, unless it runs already.

        Raises:
            SessionConflictError: ``session_closed``: the id was closed;
                ``session_taken``: it is another episode's, or the episode has another
                session; ``seed_conflict``: it was started with another world.
            SessionsFullError: ``too_many_sessions``.
        """
        name, episode = native.resources_session_id, native.episode_id
        if name.encode() in self._closed:
            message = f"resources session {name} is closed"
            raise SessionConflictError("session_closed", message)
        if self._session_of(episode) not in {None, name}:
            message = f"episode {episode.capture_key} has another session"
            raise SessionConflictError("session_taken", message)
        if name not in self:
            self.start({name: state})
            self._opened[name] = episode, state.environment
        elif not self._owns(native):
            message = f"resources session {name} is another episode's"
            raise SessionConflictError("session_taken", message)
        elif not self._began_as(name, state.environment):
            message = f"resources session {name} was started with another world"
            raise SessionConflictError("seed_conflict", message)

    def _began_as(self, name: str, world: Environment) -> bool:
        # What a restored session began with is not known.
        _, began = self._opened.get(name, (None, world))
        return identical(began.document, world.document)

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
        if name not in self:
            self._closed.put(name.encode(), True)
        return ended

    def _owns(self, native: NativeSession) -> bool:
        name = native.resources_session_id
        episode = self._bound(name) or self._opened.get(name, (None,))[0]
        return name in self and episode == native.episode_id


class Uses:
    """Knows the sessions in the order of their last use.

    Args:
        seconds: How long a session may be unused; by default none is ever idle.
        clock: Seconds of a clock that is never set.
    """

    def __init__(
        self, seconds: float = inf, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._since = clock()
        self._used: dict[str, float] = {}

    def note(self, session_ids: Iterable[str]) -> None:
        """Note that sessions are used now."""
        if self._seconds == inf:
            return  # nothing becomes idle, and nearly all requests come here
        now = self._clock()
        for session_id in session_ids:
            self._used.pop(session_id, None)
            self._used[session_id] = now

    def forget(self, session_ids: Iterable[str]) -> None:
        """Forget sessions that are over."""
        for session_id in session_ids:
            self._used.pop(session_id, None)

    def restart(self) -> None:
        """Count from now on, because no session could be used until now."""
        self._since = self._clock()

    def idle(self) -> tuple[str, ...]:
        """Name the sessions that were unused for too long."""
        latest = self._clock() - self._seconds
        if self._since > latest:
            return ()
        return tuple(takewhile(lambda name: self._used[name] <= latest, self._used))
