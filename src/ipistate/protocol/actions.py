"""What the control machine tells the shell to do, in this order."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from ipistate.kernel import JsonObject


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ipistate.protocol.episode import EpisodeId
    from ipistate.protocol.records import CheckpointRecord

STATUS_OF: Final[Mapping[str, int]] = MappingProxyType(
    {
        "unauthorized": 401,
        "rollout_id_required": 400,
        "invalid_rollout_id": 400,
        "stale_checkpoint": 409,
        "checkpoint_conflict": 409,
        "invalid_phase": 409,
        "deadline_exceeded": 409,
        "retire_incomplete": 409,
        "stale_attempt": 409,
        "restart_in_scope": 409,
        "admission_closed": 409,
        "activation_out_of_order": 409,
        "episode_taken": 409,
        "foreign_episode": 409,
        "checkpoint_error": 409,
        "invalid_checkpoint_state": 422,
        "activation_failed": 502,
    }
)
"""The HTTP status of each refusal (docs/reference/control-plane.md, appendix B)."""


def refusal(code: str, detail: str) -> JsonObject:
    """Write the body of a refusal (docs/reference/control-plane.md, section 2.15)."""
    return JsonObject({"error": {"code": code, "detail": detail}})


@attrs.frozen
class PartAction:
    """What only one kind of participant has its shell do."""


@attrs.frozen
class Admit(PartAction):
    """Let a request run."""

    request: int


@attrs.frozen
class Refuse(PartAction):
    """Answer a request with ``refusal(code, detail)`` and forget it.

    The request waits at the gate, or it wanted to make sessions that may not be.
    """

    request: int
    status: int
    code: str
    detail: str


@attrs.frozen
class Reply:
    """Answer a control call."""

    call: int
    status: int
    document: JsonObject


@attrs.frozen
class Export:
    """Look up these states (of sessions, say); to be answered at once by ``Exported``.

    Those that the shell no longer holds are left out of the answer. States are
    immutable, so references will do. ``leaked`` are live sessions that the commit's
    scope does not name, whether they are exported or not.
    """

    write: int
    keys: tuple[str, ...]
    leaked: tuple[str, ...] = ()


@attrs.frozen
class Write:
    """Write a checkpoint in the background; answered by ``WriteEnded``."""

    write: int
    directory: str
    checkpoint_id: str
    records: tuple[CheckpointRecord, ...]


@attrs.frozen
class StopWrite:
    """Set the stop flag of a write in the background; answered by ``WriteStopped``."""

    write: int


@attrs.frozen
class Read:
    """Read a checkpoint in the background; answered by ``ReadEnded``."""

    read: int
    directory: str
    scope: tuple[EpisodeId, ...]


@attrs.frozen
class Install(PartAction):
    """Make these the states of their sessions, all at once."""

    states: Mapping[str, object]


@attrs.frozen
class Free:
    """Drop these states (of sessions, say); answered by ``Freed``, at once or later.

    One that does not exist (any more) is fine.
    """

    removal: int
    keys: tuple[str, ...]


@attrs.frozen
class Sweep(PartAction):
    """Drop the states of these sessions before anything else happens.

    Nothing uses them, and they are not tracked any more.
    """

    session_ids: tuple[str, ...]


@attrs.frozen
class SetTimer:
    """Send ``Tick`` at this time (seconds since the epoch); replaces the last timer.

    None means that nothing is to be waited for.
    """

    at: float | None


Action: TypeAlias = (
    PartAction | Reply | Export | Write | StopWrite | Read | Free | SetTimer
)
