"""What an operation gives: each participant's answer, and what follows from them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

from ipistate.coordination.replies import (
    CommitReply,
    ForgetReply,
    PreparedReport,
    PrepareReply,
    RenewReply,
    RestoreReply,
    ResumeReply,
    RetireReply,
    StatusReply,
    episodes_of,
    in_order,
)


if TYPE_CHECKING:
    from collections.abc import Iterable

    from ipistate.coordination.participants import Participant
    from ipistate.protocol import EpisodeId

R_co = TypeVar("R_co", covariant=True)


@attrs.frozen
class ParticipantAnswer(Generic[R_co]):
    """One participant's reply."""

    participant: Participant
    reply: R_co


def _restarts(reports: Iterable[PreparedReport]) -> tuple[EpisodeId, ...]:
    return in_order(one for report in reports for one in report.restarting_episodes)


@attrs.frozen
class Statuses:
    """Every participant's status, in the order of a prepare."""

    answers: tuple[ParticipantAnswer[StatusReply], ...]

    @property
    def restarts(self) -> tuple[EpisodeId, ...]:
        """The episodes that some participant cannot capture, sorted."""
        return _restarts(answer.reply.report for answer in self.answers)


@attrs.frozen
class Prepared:
    """The answers of the stages that were asked; the last ones may be unprepared."""

    answers: tuple[ParticipantAnswer[PrepareReply], ...]

    @property
    def ready(self) -> bool:
        """All are prepared, so the checkpoint can be committed."""
        return not self.unready

    @property
    def unready(self) -> tuple[ParticipantAnswer[PrepareReply], ...]:
        """The answers of participants that are not prepared."""
        return tuple(one for one in self.answers if not one.reply.is_prepared)

    @property
    def blockers(self) -> tuple[EpisodeId, ...]:
        """The episodes that unprepared participants wait for, sorted.

        At most 100 of each participant; its report's ``blocker_count`` has them all.
        """
        reports = [answer.reply.report for answer in self.unready]
        return in_order(one for report in reports for one in report.blocking_episodes)

    @property
    def restarts(self) -> tuple[EpisodeId, ...]:
        """The episodes that some participant cannot capture, sorted."""
        return _restarts(answer.reply.report for answer in self.answers)


@attrs.frozen
class Committed:
    """What each server has written. Publishing it is the controller's job."""

    answers: tuple[ParticipantAnswer[CommitReply], ...]
    scope: tuple[EpisodeId, ...] | None
    """The episodes that were named, restarts left out; None named everything."""

    @property
    def episodes(self) -> tuple[EpisodeId, ...]:
        """The episodes of which some participant has written a record, sorted."""
        keys = {key for answer in self.answers for key in answer.reply.episode_ids}
        return in_order(episodes_of(keys))

    @property
    def staging_keys(self) -> tuple[str, ...]:
        """The token store's entries that must outlive the checkpoint, sorted."""
        keys = {key for answer in self.answers for key in answer.reply.staging_keys}
        return tuple(sorted(keys))


@attrs.frozen
class Restored:
    """What was installed; admission is closed until the resume."""

    answers: tuple[ParticipantAnswer[RestoreReply], ...]

    @property
    def episodes(self) -> tuple[EpisodeId, ...]:
        """The attempts under which some participant has state, sorted."""
        keys = {key for answer in self.answers for key in answer.reply.restored}
        return in_order(episodes_of(keys))

    def missing(self, named: Iterable[EpisodeId]) -> tuple[EpisodeId, ...]:
        """Return those of the named episodes that no participant has a record of."""
        found = frozenset(self.episodes)
        return tuple(one for one in named if one.next_attempt not in found)

    @property
    def sources(self) -> frozenset[str]:
        """The ids in the manifests that were read; one, unless directories are mixed."""
        return frozenset(one.reply.source_checkpoint_id for one in self.answers)


@attrs.frozen
class Resumed:
    """All have reopened."""

    answers: tuple[ParticipantAnswer[ResumeReply], ...]


@attrs.frozen
class Renewed:
    """All keep the checkpoint open for longer."""

    answers: tuple[ParticipantAnswer[RenewReply], ...]

    @property
    def lease_expires_at(self) -> float:
        """When the first participant gives up."""
        return min(answer.reply.lease_expires_at for answer in self.answers)


@attrs.frozen
class Retired:
    """All have stopped and freed these attempts; no answers if none was named."""

    answers: tuple[ParticipantAnswer[RetireReply], ...]


@attrs.frozen
class Forgotten:
    """All have ended their refusals; no answers if no rollout was named."""

    answers: tuple[ParticipantAnswer[ForgetReply], ...]
