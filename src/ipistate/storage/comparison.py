"""What changed in each session between two checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

import attrs

from ipistate.kernel import Diff, diff


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ipistate.kernel import Environment
    from ipistate.protocol import Restorable, SessionRecord
    from ipistate.sessions import RecordedSession

ComparedStatus = Literal["same", "different", "only in A", "only in B"]


@attrs.frozen(kw_only=True)
class ComparedSession:
    """A session of one checkpoint or of both."""

    session_id: str
    status: ComparedStatus
    before: str | None
    """The episode that it played in A."""
    after: str | None
    """The episode that it played in B."""
    found: Diff | None
    """What changed in its world, if both checkpoints have it."""


@attrs.frozen(kw_only=True)
class ComparedParticipant:
    """A participant of checkpoint A, of B, or of both."""

    kind: str
    instance: str
    before: str | None
    """The id of its checkpoint in A."""
    after: str | None
    """The id of its checkpoint in B."""
    sessions: tuple[ComparedSession, ...]


def compare_participants(
    kind: str, instance: str, before: Restorable | None, after: Restorable | None
) -> ComparedParticipant:
    """Compare the sessions of a participant by their ids, those of A first."""
    olds, news = _records(before), _records(after)
    sessions = tuple(
        _compared(session_id, olds.get(session_id), news.get(session_id))
        for session_id in dict.fromkeys((*olds, *news))
    )
    return ComparedParticipant(
        kind=kind,
        instance=instance,
        before=None if before is None else before.manifest.checkpoint_id,
        after=None if after is None else after.manifest.checkpoint_id,
        sessions=sessions,
    )


def _records(part: Restorable | None) -> Mapping[str, SessionRecord]:
    return {} if part is None else {one.session_id: one for one in part.records}


def _compared(
    session_id: str, before: SessionRecord | None, after: SessionRecord | None
) -> ComparedSession:
    status: ComparedStatus = "only in B" if before is None else "only in A"
    found: Diff | None = None
    if before is not None and after is not None:
        found = diff(_world(before), _world(after))
        status = "different" if found else "same"
    return ComparedSession(
        session_id=session_id,
        status=status,
        before=_episode(before),
        after=_episode(after),
        found=found,
    )


def _episode(record: SessionRecord | None) -> str | None:
    return None if record is None else record.episode_id.capture_key


def _world(record: SessionRecord) -> Environment:
    return cast("RecordedSession", record.state).environment
