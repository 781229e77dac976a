"""A resources server's participant, and the short way of requests that nothing forbids."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ipistate.protocol.participant import ControlState, ParticipantState, Settings
from ipistate.protocol.parts.resources import ResourcesPart


if TYPE_CHECKING:
    from ipistate.protocol.events import RequestArrived, RequestEnded

ResourcesState: TypeAlias = ParticipantState[ResourcesPart]


def resources_participant(
    settings: Settings,
    *,
    exports_scope_only: bool = False,
    awaits_restore: bool = False,
) -> ResourcesState:
    """Return a fresh participant.

    Args:
        settings: What the operator decides about any participant.
        exports_scope_only: A commit leaves out live sessions outside its scope.
        awaits_restore: It lets nobody in before a restore's resume.
    """
    part = ResourcesPart(
        exports_scope_only=exports_scope_only, is_open=not awaits_restore
    )
    control = ControlState(awaiting=() if awaits_restore else None)
    return ParticipantState(settings, part, control)


def enter(
    participant: ResourcesState, event: RequestArrived, now: float
) -> ResourcesState | None:
    """Admit a request that nothing forbids, in one short step.

    Nearly all requests meet an open gate while no operation waits for anything, and
    this is what ``handle`` then does.

    Returns:
        The participant that ``handle`` gives together with the one action ``Admit``.
        None if it gives anything else.
    """
    if not _is_at_rest(participant.control, now):
        return None
    part = participant.part.enter(event)
    if part is None:
        return None
    return ParticipantState(participant.settings, part, participant.control)


def leave(
    participant: ResourcesState, event: RequestEnded, now: float
) -> ResourcesState | None:
    """Take the end of a request that no operation waits for, in one short step.

    Returns:
        The participant that ``handle`` gives without any action. None if there is more
        to do.
    """
    if not _is_at_rest(participant.control, now):
        return None
    part = participant.part.end(event)
    return ParticipantState(participant.settings, part, participant.control)


def _is_at_rest(control: ControlState, now: float) -> bool:
    return now < control.due and not control.awaits_requests
