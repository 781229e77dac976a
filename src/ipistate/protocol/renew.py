"""``renew``: keep the open checkpoint from running out (section 2.14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from ipistate.kernel import JsonObject
from ipistate.protocol.actions import Reply
from ipistate.protocol.fencing import is_answered, renewed, with_control
from ipistate.protocol.participant import ParticipantState, Phase


if TYPE_CHECKING:
    from ipistate.protocol.events import ControlCalled
    from ipistate.protocol.gate import Emit

_ALLOWED: Final = frozenset(Phase) - {Phase.IDLE}


def begin(
    participant: ParticipantState, called: ControlCalled, emit: Emit
) -> ParticipantState:
    """Extend the lease; a deadline that has passed does not matter."""
    opened = participant.control.open
    if is_answered(participant, called, _ALLOWED, emit) or opened is None:
        return participant
    opened = renewed(opened, called.body, participant.settings)
    document = JsonObject({"lease_expires_at": opened.lease_expires_at})
    emit(Reply(called.call, 200, document))
    return with_control(participant, attrs.evolve(participant.control, open=opened))
