"""What is sent: an operation, its body, and the reply that it expects.

Follows the late revision of the protocol: a commit never says ``stop``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

from ipistate.coordination.replies import (
    CommitReply,
    ForgetReply,
    PrepareReply,
    RenewReply,
    RestoreReply,
    ResumeReply,
    RetireReply,
)
from ipistate.kernel import JsonObject
from ipistate.protocol import Call


if TYPE_CHECKING:
    from collections.abc import Iterable

    from ipistate.protocol import EpisodeId

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@attrs.frozen(kw_only=True)
class ControlRequest(Generic[R_co]):
    """One call, as it is sent to every participant of a stage."""

    operation: str
    deadline_ts: float
    body: JsonObject
    reply: type[R_co]


def _request(
    operation: str, call: Call, reply: type[R], **members: object
) -> ControlRequest[R]:
    body = JsonObject({**attrs.asdict(call), **members})
    return ControlRequest(
        operation=operation, deadline_ts=call.deadline_ts, body=body, reply=reply
    )


def prepare(call: Call) -> ControlRequest[PrepareReply]:
    """Close admission and wait until no request is in flight."""
    return _request("prepare", call, PrepareReply)


def renew(call: Call) -> ControlRequest[RenewReply]:
    """Keep the checkpoint open for longer."""
    return _request("renew", call, RenewReply)


def commit(
    call: Call, directory: str, scope: Iterable[EpisodeId] | None
) -> ControlRequest[CommitReply]:
    """Write the state of the episodes of the scope; None is everything."""
    episodes = None if scope is None else _documents(scope)
    return _request(
        "commit", call, CommitReply, checkpoint_dir=directory, episode_ids=episodes
    )


def restore(
    call: Call, directory: str, scope: Iterable[EpisodeId]
) -> ControlRequest[RestoreReply]:
    """Install the checkpointed attempts of the scope as their next attempts."""
    return _request(
        "restore",
        call,
        RestoreReply,
        checkpoint_dir=directory,
        episode_ids=_documents(scope),
    )


def resume(call: Call) -> ControlRequest[ResumeReply]:
    """Open admission, in every phase."""
    return _request("resume", call, ResumeReply)


def retire(call: Call, episodes: Iterable[EpisodeId]) -> ControlRequest[RetireReply]:
    """Refuse attempts and all earlier ones, and free their state."""
    return _request("retire", call, RetireReply, episode_ids=_documents(episodes))


def forget(call: Call, rollout_ids: Iterable[str]) -> ControlRequest[ForgetReply]:
    """End the refusals that retires have left."""
    names = sorted(set(rollout_ids))
    return _request("forget", call, ForgetReply, rollout_ids=names)


def _documents(episodes: Iterable[EpisodeId]) -> list[dict[str, object]]:
    return [attrs.asdict(episode) for episode in episodes]
