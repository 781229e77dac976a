"""What participants answer, strictly read; members that we do not know are kept.

They are those of docs/reference/control-plane.md, sections 2.8 to 2.14.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ipistate.coordination.participants import Kind
from ipistate.errors import SchemaError
from ipistate.kernel import EMPTY_OBJECT, JsonObject, refuse
from ipistate.protocol import EpisodeId, Phase


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable


def episodes_of(keys: Collection[str]) -> tuple[EpisodeId, ...]:
    """Read capture keys.

    Raises:
        SchemaError: ``invalid_rollout_id``: one of them is not a capture key.
    """
    return tuple(map(EpisodeId.from_capture_key, keys))


def in_order(episodes: Iterable[EpisodeId]) -> tuple[EpisodeId, ...]:
    """Sort distinct episodes by rollout and attempt."""
    return tuple(sorted(set(episodes), key=lambda one: (one.rollout_id, one.attempt)))


def _one_of(*names: str) -> Callable[[Any, attrs.Attribute[str], str], None]:
    def check(_: object, field: attrs.Attribute[str], value: str) -> None:
        if value not in names:
            message = f"{field.name} is {' or '.join(names)}"
            raise refuse("wrong_value", message, value, field)

    return check


def _check_keys(_: object, field: attrs.Attribute[Any], keys: Collection[str]) -> None:
    for key in keys:
        try:
            EpisodeId.from_capture_key(key)
        except SchemaError as error:
            message = f"{field.name} are capture keys"
            raise refuse(error.code, message, key, field) from None


def _check_counts(_: object, field: attrs.Attribute[Any], counts: JsonObject) -> None:
    for value in counts.values():
        if type(value) is not int:
            raise refuse("wrong_type", "counts are integers", value, field)


@attrs.frozen(kw_only=True)
class PreparedReport:
    """Whether a participant's frozen state can be committed, and what blocks it.

    A blocker is a capture key, or another text that names what is waited for.
    """

    ready: bool
    blockers: tuple[str, ...]
    blocker_count: int
    counts: JsonObject = attrs.field(validator=_check_counts)
    restarts: tuple[str, ...] = attrs.field(validator=_check_keys)
    extra: JsonObject = EMPTY_OBJECT

    @property
    def blocking_episodes(self) -> tuple[EpisodeId, ...]:
        """The blockers that name an episode."""
        found: list[EpisodeId] = []
        for key in self.blockers:
            try:
                found.append(EpisodeId.from_capture_key(key))
            except SchemaError:
                continue
        return tuple(found)

    @property
    def restarting_episodes(self) -> tuple[EpisodeId, ...]:
        """The episodes that this participant cannot capture."""
        return episodes_of(self.restarts)


@attrs.frozen(kw_only=True)
class Introduction:
    """The part of a status that discovery reads."""

    kind: str = attrs.field(validator=_one_of(*Kind))
    instance: str | None = None
    extra: JsonObject = EMPTY_OBJECT


@attrs.frozen(kw_only=True)
class StatusReply:
    """A participant's status; what only its kind has is in ``extra``."""

    kind: str = attrs.field(validator=_one_of(*Kind))
    instance: str
    phase: str = attrs.field(validator=_one_of(*Phase))
    checkpoint_id: str | None
    lease_expires_at: float | None
    report: PreparedReport
    retired_rollouts: int = 0
    extra: JsonObject = EMPTY_OBJECT


@attrs.frozen(kw_only=True)
class PrepareReply:
    """Phase and report when the prepare ended."""

    phase: str = attrs.field(validator=_one_of(*Phase))
    report: PreparedReport
    extra: JsonObject = EMPTY_OBJECT

    @property
    def is_prepared(self) -> bool:
        """The state is frozen and can be committed."""
        return self.phase == Phase.PREPARED


@attrs.frozen(kw_only=True)
class CommittedManifest:
    """The manifest that a participant has published."""

    schema_version: int
    kind: str
    instance: str
    checkpoint_id: str
    records_file: str
    records_sha256: str
    record_count: int
    extra: JsonObject = EMPTY_OBJECT


@attrs.frozen(kw_only=True)
class CommitReply:
    """What was written; the staging keys come from models only."""

    phase: str = attrs.field(validator=_one_of(Phase.COMMITTED))
    manifest: CommittedManifest
    episode_ids: tuple[str, ...] = attrs.field(validator=_check_keys)
    staging_keys: tuple[str, ...] = ()
    staging_keys_by_episode: JsonObject = EMPTY_OBJECT
    extra: JsonObject = EMPTY_OBJECT


@attrs.frozen(kw_only=True)
class RestoreReply:
    """What was installed, one key for each record, under the next attempts."""

    phase: str = attrs.field(validator=_one_of(Phase.RESTORED))
    source_checkpoint_id: str
    restored: tuple[str, ...] = attrs.field(validator=_check_keys)
    extra: JsonObject = EMPTY_OBJECT


@attrs.frozen(kw_only=True)
class ResumeReply:
    """Admission is open; ``idempotent`` if it was open before."""

    phase: str = attrs.field(validator=_one_of(Phase.IDLE))
    idempotent: bool
    extra: JsonObject = EMPTY_OBJECT


@attrs.frozen(kw_only=True)
class RenewReply:
    """When the participant gives the checkpoint up."""

    lease_expires_at: float
    extra: JsonObject = EMPTY_OBJECT


@attrs.frozen(kw_only=True)
class RetireReply:
    """The attempts that are refused from now on."""

    retired: tuple[str, ...] = attrs.field(validator=_check_keys)
    extra: JsonObject = EMPTY_OBJECT


@attrs.frozen(kw_only=True)
class ForgetReply:
    """The rollouts whose refusal has ended."""

    forgotten: tuple[str, ...]
    extra: JsonObject = EMPTY_OBJECT
