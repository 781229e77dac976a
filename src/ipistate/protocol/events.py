"""What the shell tells the control machine.

Requests, calls, writes, reads and removals are named by integers: those of requests and
calls are the shell's and never repeat, the others come from the machine's actions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ipistate.errors import CheckpointError
    from ipistate.protocol.episode import EpisodeId
    from ipistate.protocol.operations import ControlBody
    from ipistate.protocol.records import CheckpointRecord, Manifest, Restorable


@attrs.frozen
class PartEvent:
    """An event of the data plane: the part that the machine carries takes it."""


@attrs.frozen
class RequestArrived(PartEvent):
    """A data request has arrived at the gate: any but GET, HEAD and control routes.

    ``path`` is without the rollout prefix, ``episode`` is the prefix's. The shell holds
    the request until it is told to ``Admit`` or ``Refuse`` it.
    """

    request: int
    path: str
    session_id: str
    episode: EpisodeId | None = None


@attrs.frozen
class RequestEnded(PartEvent):
    """A request is over, whether it was admitted or still waiting.

    ``status`` is None after an exception, a disconnect or a cancellation.
    ``session_id`` is the one after the handler ran. To be sent before the next event
    of the same session. Not to be sent for a request that was refused.
    """

    request: int
    status: int | None
    session_id: str


@attrs.frozen
class SessionsMade(PartEvent):
    """A request in flight is about to make sessions for these episodes, by new ids.

    If one of the attempts has been retired, the answer is ``Refuse`` and nothing is
    bound. Otherwise all of them are, as if they had been seeded.
    """

    request: int
    sessions: Mapping[str, EpisodeId]


@attrs.frozen
class IdleFound(PartEvent):
    """These sessions were unused for too long; answered by ``Sweep`` if some may go."""

    session_ids: tuple[str, ...]


@attrs.frozen
class ControlCalled:
    """A control call with its validated body; it is answered by one ``Reply``."""

    call: int
    body: ControlBody


@attrs.frozen
class ControlDropped:
    """The caller of a control call went away before it was answered."""

    call: int


@attrs.frozen
class Exported:
    """Answer to ``Export``: the states the shell holds, by their keys."""

    write: int
    states: Mapping[str, object]


@attrs.frozen
class WriteEnded:
    """Answer to ``Write``: what was published, or why nothing was."""

    write: int
    outcome: Manifest | CheckpointError


@attrs.frozen
class WriteStopped:
    """Answer to ``StopWrite``: from now on this write publishes nothing."""

    write: int


@attrs.frozen
class ReadEnded:
    """Answer to ``Read``: the valid records of the scope, or why there are none."""

    read: int
    outcome: Restorable[CheckpointRecord] | CheckpointError


@attrs.frozen
class Installed:
    """The end of an installation that a part has begun for this read."""

    read: int
    problem: CheckpointError | None = None
    """Why nothing was installed."""


@attrs.frozen
class Freed:
    """Answer to ``Free``: what was named holds nothing any more."""

    removal: int


@attrs.frozen
class Tick:
    """The time asked for with ``SetTimer`` has come."""


Event: TypeAlias = (
    PartEvent
    | ControlCalled
    | ControlDropped
    | Exported
    | WriteEnded
    | WriteStopped
    | ReadEnded
    | Installed
    | Freed
    | Tick
)
