"""``retire``: refuse attempts from now on, wait for what they do, free their sessions.

See docs/reference/control-plane.md, sections 2.12 and 3.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ipistate.kernel import JsonObject
from ipistate.protocol.actions import Free, Reply
from ipistate.protocol.fencing import is_refused, refuse, with_control, with_lease
from ipistate.protocol.participant import ParticipantState, Retiring
from ipistate.protocol.session_registry import highest


if TYPE_CHECKING:
    from collections.abc import Iterable

    from ipistate.protocol.events import ControlCalled, Freed
    from ipistate.protocol.gate import Emit
    from ipistate.protocol.operations import RetireBody


def begin(
    participant: ParticipantState,
    called: ControlCalled,
    body: RetireBody,
    now: float,
    emit: Emit,
) -> ParticipantState:
    """Raise the marks, which stay whatever comes; ``settle`` does the rest."""
    if is_refused(participant, called, emit):
        return participant
    participant = with_lease(participant, body)
    bindings = participant.gate.bindings.marked(highest(body.episode_ids))
    control = participant.control
    if now >= body.deadline_ts:
        detail = "the deadline passed before the retire began"
        refuse(called.call, "deadline_exceeded", detail, emit)
    else:
        control = attrs.evolve(control, holder=Retiring(called.call, body))
    gate = attrs.evolve(participant.gate, bindings=bindings)
    return ParticipantState(participant.settings, gate, control)


def settle(participant: ParticipantState, emit: Emit) -> ParticipantState:
    """Free the sessions that nothing uses any more, and answer when all are free."""
    holder, gate = participant.control.holder, participant.gate
    if not isinstance(holder, Retiring):
        return participant
    attempts = highest(holder.body.episode_ids)
    leaving = gate.bindings.leaving_of(attempts)
    if leaving:
        return _free(participant, leaving, emit)
    if gate.is_seeding(attempts):
        return participant
    keys = tuple(episode.capture_key for episode in holder.body.episode_ids)
    emit(Reply(holder.call, 200, JsonObject({"retired": keys})))
    return with_control(participant, attrs.evolve(participant.control, holder=None))


def _free(
    participant: ParticipantState, leaving: Iterable[str], emit: Emit
) -> ParticipantState:
    control, bindings = participant.control, participant.gate.bindings
    busy, number = participant.gate.busy(), control.issued + 1
    idle = tuple(s for s in leaving if bindings.leaving[s] is None and s not in busy)
    if not idle:
        return participant
    emit(Free(number, idle))
    bindings = bindings.removing(number, idle)
    return ParticipantState(
        participant.settings,
        attrs.evolve(participant.gate, bindings=bindings),
        attrs.evolve(control, issued=number),
    )


def freed(participant: ParticipantState, event: Freed) -> ParticipantState:
    """Stop to track sessions that hold nothing any more."""
    gate = participant.gate
    gone = gate.bindings.removed_by(event.removal)
    if not gone:
        return participant
    return attrs.evolve(participant, gate=gate.untrack(gone))
