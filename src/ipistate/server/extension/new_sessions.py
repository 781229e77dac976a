"""New sessions out of existing ones, or out of documents: what is asked, how it is told.

A new session has a fresh id and a cookie of its own. One that is made for an episode is
bound to it, as if it had been seeded through the episode's prefix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import attrs

from ipistate.errors import DecodeError, EncodeError, SchemaError, preview
from ipistate.kernel import JsonObject, decode_as, structure, trusted_object
from ipistate.protocol import EpisodeId, rule


if TYPE_CHECKING:
    from ipistate.kernel import Adopt
    from ipistate.server.adapter.cookies import SessionCookie
    from ipistate.sessions import Session, SessionCodec

MAX_FORKS: Final = 1_000
"""How many sessions one call may make."""


@attrs.frozen
class NewSession:
    """A session that is about to begin."""

    session_id: str = attrs.field(factory=lambda: str(uuid4()), kw_only=True)
    episode: EpisodeId | None

    def to_document(self, cookie: SessionCookie, session: dict[str, Any]) -> JsonObject:
        """Tell the caller how to address the session.

        Args:
            cookie: Signs it.
            session: What the caller's own cookie holds; only the id is replaced.
        """
        episode = self.episode
        named = None if episode is None else JsonObject(attrs.asdict(episode))
        return trusted_object(
            {
                "session_id": self.session_id,
                "cookie": cookie.pair({**session, "session_id": self.session_id}),
                "episode_id": named,
            }
        )


_check_episodes: Final = rule(
    "repeated_episode",
    "two sessions of one call cannot be the same episode's",
    lambda episodes: len(set(episodes)) == len(episodes),
)


@attrs.frozen(kw_only=True)
class ForkBody:
    """How many forks are wanted, or one for each of these episodes."""

    count: int | None = None
    episode_ids: tuple[EpisodeId, ...] | None = attrs.field(
        default=None, validator=attrs.validators.optional(_check_episodes)
    )

    def __attrs_post_init__(self) -> None:
        if (self.count is None) == (self.episode_ids is None):
            raise SchemaError("invalid_fork", "give either count or episode_ids")
        wanted = self.count or len(self.episode_ids or ())
        if not 1 <= wanted <= MAX_FORKS:
            message = f"a call makes 1 to {MAX_FORKS:,} forks"
            raise SchemaError("invalid_fork", message, preview=preview(wanted))

    @property
    def births(self) -> tuple[NewSession, ...]:
        """The sessions that are wanted."""
        if self.episode_ids is None:
            return tuple(NewSession(None) for _ in range(self.count or 0))
        return tuple(map(NewSession, self.episode_ids))


@attrs.frozen(kw_only=True)
class _ImportBody:
    state: Any
    episode_id: EpisodeId | None = None


def read_import(body: bytes, codec: SessionCodec) -> tuple[NewSession, Session]:
    """Read a session's document of any readable version, and execute its log again.

    Raises:
        DecodeError: The body is not acceptable JSON.
        SchemaError: It is not such a document, or its log is not what the tools do.
    """

    def read(tree: Any, adopt: Adopt) -> tuple[NewSession, Session]:
        wanted = structure(tree, _ImportBody)
        try:
            session = codec.decode(wanted.state, adopt)
        except (DecodeError, EncodeError, SchemaError) as error:
            raise error.below("state") from None
        return NewSession(wanted.episode_id), session

    return decode_as(body, read)
