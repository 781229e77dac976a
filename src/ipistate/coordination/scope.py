"""Arithmetic with episodes and deadlines: what a call names, how long it may take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ipistate.protocol import EpisodeId


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

GRACE_SECONDS: Final = 5.0
"""How long after its deadline a call's reply is waited for."""

STATUS_SECONDS: Final = 60.0
"""How long a status is waited for; it has no deadline."""

CLEAN_UP_SECONDS: Final = 30.0
"""What the clean-up after a failed restore has at least."""


def continued(
    episodes: Iterable[EpisodeId] | None, restarts: Iterable[EpisodeId]
) -> tuple[EpisodeId, ...] | None:
    """Take the restarts out of what the controller continues; None names everything."""
    if episodes is None:
        return None
    left_out = frozenset(restarts)
    return tuple(one for one in dict.fromkeys(episodes) if one not in left_out)


def next_attempts(episodes: Iterable[EpisodeId]) -> tuple[EpisodeId, ...]:
    """Return the attempts under which a restore installs episodes."""
    return tuple(one.next_attempt for one in dict.fromkeys(episodes))


def in_order(episodes: Iterable[EpisodeId]) -> tuple[EpisodeId, ...]:
    """Sort distinct episodes by rollout and attempt."""
    return tuple(sorted(set(episodes), key=lambda one: (one.rollout_id, one.attempt)))


def episodes_of(keys: Collection[str]) -> tuple[EpisodeId, ...]:
    """Read capture keys.

    Raises:
        SchemaError: ``invalid_rollout_id``: one of them is none.
    """
    return tuple(EpisodeId.from_capture_key(key) for key in keys)


def patience(deadline_ts: float, now: float) -> float:
    """Return the seconds that a call may take, connection tries included."""
    return max(deadline_ts - now, 0.0) + GRACE_SECONDS


def clean_up_deadline(deadline_ts: float, now: float) -> float:
    """Return the deadline for undoing a failed restore."""
    return max(deadline_ts, now + CLEAN_UP_SECONDS)
