"""Leases: how long a checkpoint stays open without a word from its controller.

A controller that dies would keep the gate closed for ever. So each of its calls extends
the lease, and once that has run out the participant resumes by itself
(``resume.expire``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from ipistate.kernel import JsonObject
from ipistate.protocol.actions import Reply
from ipistate.protocol.fencing import is_answered
from ipistate.protocol.participant import ParticipantState, Phase


if TYPE_CHECKING:
    from ipistate.protocol.events import ControlCalled
    from ipistate.protocol.gate import Emit
    from ipistate.protocol.operations import Call
    from ipistate.protocol.participant import Checkpoint, Settings

_ALLOWED: Final = frozenset(Phase) - {Phase.IDLE}


def renew(
    participant: ParticipantState, called: ControlCalled, emit: Emit
) -> ParticipantState:
    """Extend the lease; a deadline that has passed does not matter (section 2.14)."""
    opened = participant.control.open
    if is_answered(participant, called, _ALLOWED, emit) or opened is None:
        return participant
    opened = renewed(opened, called.body, participant.settings)
    document = JsonObject({"lease_expires_at": opened.lease_expires_at})
    emit(Reply(called.call, 200, document))
    return participant.opening(opened)


def renewed(checkpoint: Checkpoint, body: Call, settings: Settings) -> Checkpoint:
    """Extend the lease to the call's deadline and the grace."""
    # It never shrinks: calls may overtake each other on the way, and an earlier one
    # must not take back what a later one was promised.
    until = body.deadline_ts + settings.lease_grace_seconds
    return attrs.evolve(
        checkpoint, lease_expires_at=max(checkpoint.lease_expires_at, until)
    )


def with_lease(participant: ParticipantState, body: Call) -> ParticipantState:
    """Extend the lease of the open checkpoint, if there is one."""
    opened = participant.control.open
    if opened is None:
        return participant
    return participant.opening(renewed(opened, body, participant.settings))
