"""The bodies of the control plane's calls (docs/reference/control-plane.md, section 2.3).

Read them with ``schema.structure``: unknown members are refused, nothing is coerced.
"""

from __future__ import annotations

import math

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from ipistate.errors import SchemaError, preview
from ipistate.kernel import refuse
from ipistate.protocol.episode import SAFE_NAME, EpisodeId, rule


if TYPE_CHECKING:
    from collections.abc import Mapping, Sized

MAX_CHECKPOINT_ID: Final = 128

MAX_IDS: Final = 100_000
"""How many episodes or rollouts one call may name."""


MAX_AHEAD: Final = 7 * 24 * 60 * 60
"""Seconds from now to the farthest deadline; the lease lasts a little longer."""


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no float can be
        return False


_check_id: Final = rule(
    "invalid_checkpoint_id",
    f"1 to {MAX_CHECKPOINT_ID} characters, ^{SAFE_NAME.pattern}$",
    lambda name: len(name) <= MAX_CHECKPOINT_ID and bool(SAFE_NAME.fullmatch(name)),
)
_check_deadline: Final = rule(
    "invalid_deadline", "a deadline is a finite number", _is_finite
)
_check_directory: Final = rule("invalid_directory", "a directory has a name", bool)
_check_some: Final = rule("missing_ids", "at least one id is required", bool)


def _check_count(_: object, field: attrs.Attribute[Any], value: Sized) -> None:
    if len(value) > MAX_IDS:
        message = f"a call names at most {MAX_IDS:,} ids"
        raise refuse("too_many_ids", message, len(value), field)


@attrs.frozen(kw_only=True)
class Call:
    """What every call names: the checkpoint, and how long the caller waits."""

    checkpoint_id: str = attrs.field(validator=_check_id)
    deadline_ts: float = attrs.field(validator=_check_deadline)


def check_deadline(body: Call, now: float) -> None:
    """Refuse a deadline that can only be a mistake, because a lease would follow it.

    Raises:
        SchemaError: ``deadline_too_far``.
    """
    if body.deadline_ts - now > MAX_AHEAD:
        days = MAX_AHEAD // (24 * 60 * 60)
        raise SchemaError(
            "deadline_too_far",
            f"a deadline is at most {days} days ahead, in seconds (not milliseconds)"
            f" since 1970; it is {now:.0f} now",
            "$.deadline_ts",
            preview(body.deadline_ts),
        )


@attrs.frozen(kw_only=True)
class PrepareBody(Call):
    """Close admission and wait until no request is in flight."""


@attrs.frozen(kw_only=True)
class CommitBody(Call):
    """Write the sessions to a directory; ``episode_ids=None`` means all of them."""

    checkpoint_dir: str = attrs.field(validator=_check_directory)
    episode_ids: tuple[EpisodeId, ...] | None = attrs.field(
        default=None, validator=attrs.validators.optional(_check_count)
    )
    stop: bool = False
    """Sent by earlier coordinators; these sessions hold nothing that could stop."""


@attrs.frozen(kw_only=True)
class RestoreBody(Call):
    """Install sessions from a directory, each under its next attempt."""

    checkpoint_dir: str = attrs.field(validator=_check_directory)
    episode_ids: tuple[EpisodeId, ...] = attrs.field(validator=_check_count)


@attrs.frozen(kw_only=True)
class ResumeBody(Call):
    """Reopen admission, in every state."""


@attrs.frozen(kw_only=True)
class RenewBody(Call):
    """Keep the open checkpoint from running out."""


@attrs.frozen(kw_only=True)
class RetireBody(Call):
    """Refuse these attempts and all earlier ones, and free their sessions."""

    episode_ids: tuple[EpisodeId, ...] = attrs.field(
        validator=[_check_some, _check_count]
    )


@attrs.frozen(kw_only=True)
class ForgetBody(Call):
    """Drop what retiring has left of these rollouts; unknown ones are fine."""

    rollout_ids: tuple[str, ...] = attrs.field(validator=[_check_some, _check_count])


ControlBody: TypeAlias = (
    PrepareBody
    | RenewBody
    | CommitBody
    | RestoreBody
    | ResumeBody
    | RetireBody
    | ForgetBody
)

OPERATIONS: Final[Mapping[str, type[ControlBody]]] = MappingProxyType(
    {
        "prepare": PrepareBody,
        "renew": RenewBody,
        "commit": CommitBody,
        "restore": RestoreBody,
        "resume": ResumeBody,
        "retire": RetireBody,
        "forget": ForgetBody,
    }
)
"""The body that each route below the control prefix takes."""
