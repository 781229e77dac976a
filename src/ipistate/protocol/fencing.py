"""What operations share: may they run now, how they are answered, how the lease is kept.

See docs/reference/control-plane.md, sections 2.5 to 2.7 and 2.14.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import attrs

from ipistate.kernel import JsonObject
from ipistate.protocol.actions import STATUS_OF, Reply, refusal
from ipistate.protocol.events import ControlCalled
from ipistate.protocol.operations import Call, ControlBody
from ipistate.protocol.participant import (
    Checkpoint,
    ControlState,
    ParticipantState,
    Phase,
    Recorded,
    Settings,
)
from ipistate.protocol.parts.part import Emit, PartT


REMEMBERED_IDS: Final = 64
"""Resumed ids that stay fenced; a late call for an older one is a new checkpoint."""

_RENEWABLE: Final = frozenset(Phase) - {Phase.IDLE}


def refuse(call: int, code: str, detail: str, emit: Emit) -> None:
    """Answer a call with an error."""
    emit(Reply(call, STATUS_OF[code], refusal(code, detail)))


def is_answered(
    participant: ParticipantState[PartT],
    called: ControlCalled,
    allowed: Collection[Phase],
    emit: Emit,
) -> bool:
    """Answer a call that is a retry or that may not run; False if it may.

    A retry gets the recorded reply, in every phase.
    """
    call, body, control = called.call, called.body, participant.control
    opened = control.open
    # Before the phase is looked at: the reply to the first call may have got lost, and
    # its retry then comes in the phase that the first one led to.
    if opened is not None and opened.id == body.checkpoint_id:
        recorded = opened.recorded.get(type(body))
        if recorded is not None:
            _repeat(called, recorded, emit)
            return True
    problem = _problem(control, body, allowed)
    if problem is not None:
        refuse(call, *problem, emit)
    return problem is not None


def is_refused(
    participant: ParticipantState[PartT], called: ControlCalled, emit: Emit
) -> bool:
    """Answer a retire or a forget that may not run; False if it may.

    They do without the fence and leave no reply behind
    (docs/reference/control-plane.md, section 2.12).
    """
    opened, body = participant.control.open, called.body
    if opened is not None and opened.phase is not Phase.RESTORED:
        detail = f"checkpoint {opened.id} is {opened.phase.value}; resume it first"
        refuse(called.call, "invalid_phase", detail, emit)
    elif opened is not None and opened.id != body.checkpoint_id:
        detail = f"checkpoint {opened.id} is open"
        refuse(called.call, "checkpoint_conflict", detail, emit)
    else:
        return False
    return True


def is_late(called: ControlCalled, operation: str, now: float, emit: Emit) -> bool:
    """Answer a call whose deadline passed while it queued; False if there is time.

    Its caller has stopped to wait, so what it would start could surprise the next one.
    """
    if now < called.body.deadline_ts:
        return False
    detail = f"the deadline passed before the {operation} began"
    refuse(called.call, "deadline_exceeded", detail, emit)
    return True


def _repeat(called: ControlCalled, recorded: Recorded, emit: Emit) -> None:
    if recorded.is_repeated_by(called.body):
        emit(Reply(called.call, 200, recorded.document))
        return
    detail = "this checkpoint was completed with another directory or scope"
    refuse(called.call, "checkpoint_conflict", detail, emit)


def _problem(
    control: ControlState, body: ControlBody, allowed: Collection[Phase]
) -> tuple[str, str] | None:
    opened, wanted = control.open, body.checkpoint_id
    # A call that was delayed on the way must not close the gate again, after its
    # coordinator has resumed all participants: no call would come to open it.
    if wanted in control.resumed:
        return "stale_checkpoint", f"checkpoint {wanted} has been resumed"
    if opened is not None and opened.id != wanted:
        return "checkpoint_conflict", f"checkpoint {opened.id} is open"
    phase = Phase.IDLE if opened is None else opened.phase
    if phase not in allowed:
        return "invalid_phase", f"not allowed in phase {phase.value}"
    return None


def completed(
    checkpoint: Checkpoint, phase: Phase, body: ControlBody, document: JsonObject
) -> Checkpoint:
    """Enter the phase that an operation leads to, and record its reply."""
    recorded = {**checkpoint.recorded, type(body): Recorded(body, document)}
    return attrs.evolve(checkpoint, phase=phase, recorded=recorded)


def remembered(resumed: tuple[str, ...], checkpoint_id: str) -> tuple[str, ...]:
    """Fence an id; of many, the oldest is forgotten."""
    return (*resumed, checkpoint_id)[-REMEMBERED_IDS:]


def renew(
    participant: ParticipantState[PartT], called: ControlCalled, emit: Emit
) -> ParticipantState[PartT]:
    """Extend the lease; a deadline that has passed does not matter.

    See docs/reference/control-plane.md, section 2.14.
    """
    opened = participant.control.open
    if is_answered(participant, called, _RENEWABLE, emit) or opened is None:
        return participant
    opened = renewed(opened, called.body, participant.settings)
    document = JsonObject({"lease_expires_at": opened.lease_expires_at})
    emit(Reply(called.call, 200, document))
    return participant.opening(opened)


def renewed(checkpoint: Checkpoint, body: Call, settings: Settings) -> Checkpoint:
    """Extend the lease to the call's deadline and the grace."""
    # Without a lease a controller that dies would leave the gate closed. So each of its
    # calls extends the lease, and when it has run out the participant resumes by itself.
    # It never shrinks: calls may overtake each other on the way, and an earlier one
    # must not take back what a later one was promised.
    until = body.deadline_ts + settings.lease_grace_seconds
    return attrs.evolve(
        checkpoint, lease_expires_at=max(checkpoint.lease_expires_at, until)
    )


def with_lease(
    participant: ParticipantState[PartT], body: Call
) -> ParticipantState[PartT]:
    """Extend the lease of the open checkpoint, if there is one."""
    opened = participant.control.open
    if opened is None:
        return participant
    return participant.opening(renewed(opened, body, participant.settings))
