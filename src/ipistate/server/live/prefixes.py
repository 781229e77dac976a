"""What the rollout prefix of a request means beside its cookie.

The cookie names the session. The prefix names the episode that a seed binds it to, and
otherwise only tells late attempts from current ones (docs/reference/control-plane.md,
section 1.3). Where both are there they can disagree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ipistate.protocol import CLOSE_PATH, SEED_PATH, SESSION_MEMBER


if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Scope

    from ipistate.protocol import EpisodeId
    from ipistate.server.operating.observer import Observer
    from ipistate.server.operating.settings import ServerSettings

_TAKEN: Final = "the episode has a session, and the request came without its cookie"
_FOREIGN: Final = "the session belongs to another rollout than the prefix names"


class Prefixes:
    """Decides which session a prefix leads to, and which prefix is refused.

    Args:
        settings: What the operator has decided.
        observer: Is told of prefixes that belong to another rollout, and of refusals.
        session_of: The one session of an episode, if there is one.
        episode_of: The episode of a session, if it has one.
    """

    def __init__(
        self,
        settings: ServerSettings,
        observer: Observer,
        session_of: Callable[[EpisodeId], str | None],
        episode_of: Callable[[str], EpisodeId | None],
    ) -> None:
        self._settings = settings
        self._observer = observer
        self._session_of = session_of
        self._episode_of = episode_of

    def session(
        self, path: str, episode: EpisodeId | None, *, is_new: bool
    ) -> str | None:
        """Return the session that a request belongs to by its prefix, None by its cookie.

        Some clients keep no cookies for bare addresses. And an episode has one session:
        a seed that is repeated, because its reply got lost, starts that one afresh.
        """
        if episode is None or not (is_new or path == SEED_PATH):
            return None
        return self._session_of(episode) if self._settings.finds_by_prefix else None

    def join(self, scope: Scope) -> None:
        """Let a request take part in the session that its prefix leads to, if any."""
        path, episode, is_new = scope["path"], scope["episode"], scope["session_is_new"]
        found = self.session(path, episode, is_new=is_new)
        if found is not None:
            scope["session"][SESSION_MEMBER] = found

    def objection(
        self, path: str, session_id: str, episode: EpisodeId | None
    ) -> tuple[str, str] | None:
        """Return the code and the text of a refusal, None if nothing speaks against it."""
        found: tuple[str, str] | None = None
        if episode is None or path == CLOSE_PATH:
            return None
        if path == SEED_PATH:
            if self._session_of(episode) not in {None, session_id}:
                found = "episode_taken", _TAKEN
        elif self.is_foreign(session_id, episode):
            self._observer.foreign()
            if self._settings.refuses_foreign_prefixes:
                found = "foreign_episode", _FOREIGN
        if found is not None:
            self._observer.refused(found[0])
        return found

    def is_foreign(self, session_id: str, named: EpisodeId | None) -> bool:
        """Tell whether a prefix names another rollout than the session's."""
        if named is None:
            return False
        bound = self._episode_of(session_id)
        return bound is not None and bound.rollout_id != named.rollout_id
