"""Which sessions exist and which episode each is bound to.

See docs/reference/control-plane.md, sections 3.3 and 3.6.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import attrs

from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.parts.retired_attempts import RetiredAttempts, is_among


_NONE: Final[Mapping[Any, Any]] = MappingProxyType({})


@attrs.frozen(kw_only=True)
class SessionRegistry:
    """What is known of sessions; ``unclaimed`` and ``leaving`` are part of them."""

    sessions: Mapping[str, EpisodeId] = _NONE
    """The episode that each tracked session is bound to."""
    by_episode: Mapping[EpisodeId, frozenset[str]] = _NONE
    """The same the other way round, so that one can be found among thousands."""
    unclaimed: frozenset[str] = frozenset()
    """Restored sessions that no request has used yet."""
    leaving: Mapping[str, int | None] = _NONE
    """Retired sessions that are not freed yet, and the removal that is freeing them."""
    retired: RetiredAttempts = attrs.Factory(RetiredAttempts)
    """What is refused, also after the sessions are gone."""

    def objection(self, session: str, named: EpisodeId | None) -> str | None:
        """Say why a request for a session, as part of an episode, is too late."""
        if self.retired.refuses(session, named):
            return "this attempt has been retired"
        bound = self.sessions.get(session)
        if (
            named is not None
            and bound is not None
            and named.rollout_id == bound.rollout_id
            and named.attempt < bound.attempt
        ):
            return "the session belongs to a later attempt of this rollout"
        return None

    def session_of(self, episode: EpisodeId) -> str | None:
        """Return the one session of an episode, None if there are none or several."""
        found = self.by_episode.get(episode, ())
        return next(iter(found)) if len(found) == 1 else None

    def claimed(self, sessions: Iterable[str]) -> SessionRegistry:
        """Take sessions as live, because requests use them."""
        claimed = self.unclaimed.intersection(sessions)
        if not claimed:
            return self
        return attrs.evolve(self, unclaimed=self.unclaimed - claimed)

    def bound(self, episodes: Mapping[str, EpisodeId]) -> SessionRegistry:
        """Bind sessions, new or not, to episodes.

        What binds to a retired attempt came too late and is retired like the rest. What
        binds to any other is a new session, also if it was bound or retired before.
        """
        retired = self.retired.bound(episodes)
        late = [session for session in episodes if session in retired.sessions]
        return SessionRegistry(
            sessions={**self.sessions, **episodes},
            by_episode=self._indexed(episodes, episodes),
            unclaimed=self.unclaimed.difference(episodes),
            leaving={**_without(self.leaving, episodes), **dict.fromkeys(late)},
            retired=retired,
        )

    def installed(self, episodes: Mapping[str, EpisodeId]) -> SessionRegistry:
        """Bind restored sessions, which are not claimed yet."""
        after = self.bound(episodes)
        unclaimed = after.unclaimed.union(episodes).difference(after.leaving)
        return attrs.evolve(after, unclaimed=unclaimed)

    def ended(self, session: str) -> SessionRegistry:
        """Stop to track a session that ended, unless its state is being freed.

        Nothing else may take its name before that is done: it would be freed as well.
        """
        if session not in self.sessions or self.leaving.get(session) is not None:
            return self
        return self.untracked((session,))

    def untracked(self, sessions: Collection[str]) -> SessionRegistry:
        """Stop to track sessions whose state is gone."""
        return attrs.evolve(
            self,
            sessions=_without(self.sessions, sessions),
            by_episode=self._indexed(sessions, {}),
            unclaimed=self.unclaimed.difference(sessions),
            leaving=_without(self.leaving, sessions),
        )

    def _indexed(
        self, left: Iterable[str], bound: Mapping[str, EpisodeId]
    ) -> Mapping[EpisodeId, frozenset[str]]:
        index = dict(self.by_episode)
        for session in left:
            before = self.sessions.get(session)
            if before is not None:
                rest = index.pop(before) - {session}
                index |= {before: rest} if rest else {}
        for session, episode in bound.items():
            index[episode] = index.get(episode, frozenset()) | {session}
        return index

    # Retired attempts

    def marked(self, attempts: Mapping[str, int]) -> SessionRegistry:
        """Retire these attempts and all earlier ones, with their sessions."""
        retired = self.retired.marked(attempts).bound(self.sessions)
        late = [session for session in self.sessions if session in retired.sessions]
        return attrs.evolve(
            self,
            unclaimed=self.unclaimed.difference(late),
            leaving={**dict.fromkeys(late), **self.leaving},
            retired=retired,
        )

    def leaving_of(self, attempts: Mapping[str, int]) -> tuple[str, ...]:
        """Name the sessions of these attempts, or earlier ones, still to be freed."""
        episodes = {session: self.sessions[session] for session in self.leaving}
        return tuple(sorted(s for s, e in episodes.items() if is_among(e, attempts)))

    def removing(self, removal: int, sessions: Iterable[str]) -> SessionRegistry:
        """Take leaving sessions as being freed."""
        leaving = {**self.leaving, **dict.fromkeys(sessions, removal)}
        return attrs.evolve(self, leaving=leaving)

    def removed_by(self, removal: int) -> tuple[str, ...]:
        """Name the sessions that a removal has freed.

        One that was bound again meanwhile is not the one that was freed.
        """
        return tuple(s for s, number in self.leaving.items() if number == removal)

    def blockers(self) -> tuple[str, ...]:
        """Name the episodes whose sessions are not freed yet, as capture keys."""
        return tuple(sorted({self.sessions[s].capture_key for s in self.leaving}))

    # Checkpoints

    def exportable(self, scope: frozenset[str] | None) -> tuple[str, ...]:
        """Name the sessions that belong into a checkpoint.

        Live sessions always do; the scope only filters restored ones that nothing has
        claimed.
        """
        left_out = self.leaving.keys() | self.unwanted(scope)
        return tuple(session for session in self.sessions if session not in left_out)

    def leaked(self, scope: frozenset[str] | None) -> tuple[str, ...]:
        """Name the live sessions of episodes that the scope does not continue."""
        if scope is None:
            return ()
        return tuple(
            session
            for session, episode in self.sessions.items()
            if episode.capture_key not in scope
            and session not in self.unclaimed
            and session not in self.leaving
        )

    def unwanted(self, scope: frozenset[str] | None) -> tuple[str, ...]:
        """Name the unclaimed sessions that the scope gives up."""
        if scope is None or not self.unclaimed:
            return ()
        return tuple(
            session
            for session, episode in self.sessions.items()
            if session in self.unclaimed and episode.capture_key not in scope
        )


def _without(mapping: Mapping[str, Any], keys: Iterable[str]) -> Mapping[str, Any]:
    rest = dict(mapping)
    for key in keys:
        rest.pop(key, None)
    return rest
