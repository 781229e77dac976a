"""``forget``: drop what retiring left, once nothing of it can run (section 2.12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ipistate.kernel import JsonObject
from ipistate.protocol.actions import Reply
from ipistate.protocol.fencing import is_refused, refuse, with_lease
from ipistate.protocol.participant import ParticipantState


if TYPE_CHECKING:
    from ipistate.protocol.events import ControlCalled
    from ipistate.protocol.gate import Emit, Gate
    from ipistate.protocol.operations import ForgetBody


def begin(
    participant: ParticipantState,
    called: ControlCalled,
    body: ForgetBody,
    now: float,
    emit: Emit,
) -> ParticipantState:
    """Lift the marks of these rollouts, or none of them."""
    if is_refused(participant, called, emit):
        return participant
    participant = with_lease(participant, body)
    gate, rollouts = participant.gate, frozenset(body.rollout_ids)
    if now >= body.deadline_ts:
        detail = "the deadline passed before the forget began"
        refuse(called.call, "deadline_exceeded", detail, emit)
    elif _is_incomplete(gate, rollouts):
        detail = "sessions of a retired attempt are not freed yet; retire it again"
        refuse(called.call, "retire_incomplete", detail, emit)
    else:
        emit(Reply(called.call, 200, JsonObject({"forgotten": sorted(rollouts)})))
        gate = attrs.evolve(gate, bindings=gate.bindings.unmarked(rollouts))
    return ParticipantState(participant.settings, gate, participant.control)


def _is_incomplete(gate: Gate, rollouts: frozenset[str]) -> bool:
    marks = gate.bindings.marks
    attempts = {rollout: marks[rollout] for rollout in rollouts & marks.keys()}
    return bool(gate.bindings.leaving_of(attempts)) or gate.is_seeding(attempts)
