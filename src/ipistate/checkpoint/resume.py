"""``resume``: reopen admission and fence the id, whatever happened (section 2.11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ipistate.checkpoint.actions import Reply, StopWrite
from ipistate.checkpoint.fencing import refuse, remembered, with_control
from ipistate.checkpoint.participant import Checkpoint, Participant, Phase, Resuming
from ipistate.values import JsonObject


if TYPE_CHECKING:
    from ipistate.checkpoint.events import WriteStopped
    from ipistate.checkpoint.gate import Emit
    from ipistate.checkpoint.operations import ResumeBody


def begin(
    participant: Participant, call: int, body: ResumeBody, emit: Emit
) -> Participant:
    """Resume the open checkpoint, or fence an id that is not open (any more)."""
    control, wanted = participant.control, body.checkpoint_id
    if wanted in control.resumed:
        emit(_reply(call, is_repeated=True))
        return participant
    if control.open is None:
        emit(_reply(call, is_repeated=True))
        resumed = remembered(control.resumed, wanted)
        return with_control(participant, attrs.evolve(control, resumed=resumed))
    if control.open.id != wanted:
        detail = f"checkpoint {control.open.id} is open"
        refuse(call, "checkpoint_conflict", detail, emit)
        return participant
    return _stop_write(participant, control.open, call, emit)


def expire(participant: Participant, now: float, emit: Emit) -> Participant:
    """Do the same for a checkpoint whose lease has run out."""
    opened = participant.control.open
    if opened is None or now < opened.lease_expires_at:
        return participant
    return _stop_write(participant, opened, None, emit)


def _stop_write(
    participant: Participant, opened: Checkpoint, call: int | None, emit: Emit
) -> Participant:
    if opened.cut is None or not opened.cut.is_writing:
        return _finish(participant, opened, call, emit)
    write = opened.cut.number
    emit(StopWrite(write))
    holder = Resuming(call, write)
    return with_control(participant, attrs.evolve(participant.control, holder=holder))


def write_stopped(
    participant: Participant, event: WriteStopped, emit: Emit
) -> Participant:
    """Go on with the resume: from now on no manifest can appear."""
    holder, opened = participant.control.holder, participant.control.open
    if not isinstance(holder, Resuming) or opened is None:
        return participant
    if holder.write != event.write:
        return participant
    return _finish(participant, opened, holder.call, emit)


def _finish(
    participant: Participant, opened: Checkpoint, call: int | None, emit: Emit
) -> Participant:
    gate = participant.gate.open(emit)
    if call is not None:
        emit(_reply(call, is_repeated=False))
    control = attrs.evolve(
        participant.control,
        open=None,
        holder=None,
        resumed=remembered(participant.control.resumed, opened.id),
    )
    return Participant(participant.settings, gate, control)


def _reply(call: int, *, is_repeated: bool) -> Reply:
    document = JsonObject({"phase": Phase.IDLE.value, "idempotent": is_repeated})
    return Reply(call, 200, document)
