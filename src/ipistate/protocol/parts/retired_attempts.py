"""Retired attempts: a request of one is refused until its rollout is forgotten.

See docs/reference/control-plane.md, sections 3.6 and 3.7.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

import attrs

from ipistate.protocol.episode import EpisodeId


_NO_ATTEMPTS: Final[Mapping[str, int]] = MappingProxyType({})
_NO_SESSIONS: Final[Mapping[str, str]] = MappingProxyType({})


def highest(episodes: Iterable[EpisodeId]) -> Mapping[str, int]:
    """Return the highest attempt named of each rollout."""
    attempts: dict[str, int] = {}
    for episode in episodes:
        attempt = attempts.get(episode.rollout_id, 0)
        attempts[episode.rollout_id] = max(attempt, episode.attempt)
    return attempts


def is_among(episode: EpisodeId, attempts: Mapping[str, int]) -> bool:
    """Tell whether an episode is one of these attempts, or an earlier one."""
    return episode.attempt <= attempts.get(episode.rollout_id, -1)


@attrs.frozen(kw_only=True)
class RetiredAttempts:
    """The attempts that are refused, and the sessions that were bound to them."""

    marks: Mapping[str, int] = _NO_ATTEMPTS
    """The highest retired attempt of each rollout; earlier ones are retired as well."""
    sessions: Mapping[str, str] = _NO_SESSIONS
    """The rollout of each retired session, freed or not."""

    def covers(self, episode: EpisodeId) -> bool:
        """Tell whether this attempt has been retired."""
        return is_among(episode, self.marks)

    def refuses(self, session: str, named: EpisodeId | None) -> bool:
        """Tell whether a request for a session, as part of an episode, is too late."""
        # The session counts by itself: a request may come without its episode's name,
        # and the marks would not see it.
        return session in self.sessions or (named is not None and self.covers(named))

    def marked(self, attempts: Mapping[str, int]) -> RetiredAttempts:
        """Retire these attempts and all earlier ones; a mark is never lowered."""
        raised = {r: max(a, self.marks.get(r, -1)) for r, a in attempts.items()}
        return attrs.evolve(self, marks={**self.marks, **raised})

    def bound(self, episodes: Mapping[str, EpisodeId]) -> RetiredAttempts:
        """Retire those of these sessions that are bound to retired attempts."""
        late = {s: e.rollout_id for s, e in episodes.items() if self.covers(e)}
        if not late and self.sessions.keys().isdisjoint(episodes):
            return self
        kept = {s: r for s, r in self.sessions.items() if s not in episodes}
        return attrs.evolve(self, sessions={**kept, **late})

    def forgotten(self, rollouts: Collection[str]) -> RetiredAttempts:
        """Forget that attempts of these rollouts have been retired."""
        return RetiredAttempts(
            marks={r: a for r, a in self.marks.items() if r not in rollouts},
            sessions={s: r for s, r in self.sessions.items() if r not in rollouts},
        )
