"""The bodies of the control plane's calls (spec control-plane, section 2.3).

Read them with ``schema.structure``: unknown members are refused, nothing is coerced.
"""

from __future__ import annotations

import math

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from ipistate.checkpoint.episode import SAFE_NAME, EpisodeId
from ipistate.schema import refuse


if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_CHECKPOINT_ID: Final = 128


def _check_id(_: object, __: object, value: str) -> None:
    if len(value) > MAX_CHECKPOINT_ID or SAFE_NAME.fullmatch(value) is None:
        message = f"1 to {MAX_CHECKPOINT_ID} characters, ^{SAFE_NAME.pattern}$"
        raise refuse("invalid_checkpoint_id", message, value)


def _check_deadline(_: object, __: object, value: float) -> None:
    try:
        finite = math.isfinite(value)
    except OverflowError:
        finite = False
    if not finite:
        raise refuse("invalid_deadline", "a deadline is a finite number", value)


def _check_directory(_: object, __: object, value: str) -> None:
    if not value:
        raise refuse("invalid_directory", "a directory has a name", value)


@attrs.frozen(kw_only=True)
class Call:
    """What every call names: the checkpoint, and how long the caller waits."""

    checkpoint_id: str = attrs.field(validator=_check_id)
    deadline_ts: float = attrs.field(validator=_check_deadline)


@attrs.frozen(kw_only=True)
class PrepareBody(Call):
    """Close admission and wait until no request is in flight."""


@attrs.frozen(kw_only=True)
class CommitBody(Call):
    """Write the sessions to a directory; ``episode_ids=None`` means all of them."""

    checkpoint_dir: str = attrs.field(validator=_check_directory)
    episode_ids: tuple[EpisodeId, ...] | None = None
    stop: bool = False
    """Sent by earlier coordinators; these sessions hold nothing that could stop."""


@attrs.frozen(kw_only=True)
class RestoreBody(Call):
    """Install sessions from a directory, each under its next attempt."""

    checkpoint_dir: str = attrs.field(validator=_check_directory)
    episode_ids: tuple[EpisodeId, ...]


@attrs.frozen(kw_only=True)
class ResumeBody(Call):
    """Reopen admission, whatever happened before."""


Operation: TypeAlias = PrepareBody | CommitBody | RestoreBody | ResumeBody

OPERATIONS: Final[Mapping[str, type[Operation]]] = MappingProxyType(
    {
        "prepare": PrepareBody,
        "commit": CommitBody,
        "restore": RestoreBody,
        "resume": ResumeBody,
    }
)
"""The body that each route below the control prefix takes."""
