"""``resume``: reopen admission and fence the id, in every state.

See docs/reference/control-plane.md, section 2.11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from ipistate.kernel import JsonObject
from ipistate.protocol.actions import Reply, StopWrite
from ipistate.protocol.fencing import refuse, remembered
from ipistate.protocol.participant import (
    Checkpoint,
    Draining,
    ParticipantState,
    Phase,
    Stopping,
)


if TYPE_CHECKING:
    from ipistate.protocol.events import WriteStopped
    from ipistate.protocol.operations import ResumeBody
    from ipistate.protocol.participant import Holder
    from ipistate.protocol.parts.part import Emit, PartT

REOPEN_WAIT: Final = 30.0
"""How long an expired lease waits for a deletion, and then before it tries again."""


def begin(
    participant: ParticipantState[PartT],
    call: int,
    body: ResumeBody,
    now: float,
    emit: Emit,
) -> ParticipantState[PartT]:
    """Resume the open checkpoint, or fence an id that is not open (any more)."""
    control, wanted = participant.control, body.checkpoint_id
    if wanted in control.resumed:
        emit(_reply(call, is_repeated=True))
        return participant
    if control.open is None:
        return _fence(participant, call, wanted, now, emit)
    if control.open.id != wanted:
        detail = f"checkpoint {control.open.id} is open"
        refuse(call, "checkpoint_conflict", detail, emit)
        return participant
    participant = _start(
        participant, control.open, Draining(call, body.deadline_ts), now, emit
    )
    return time_out(participant, now, emit)


def _fence(
    participant: ParticipantState[PartT], call: int, wanted: str, now: float, emit: Emit
) -> ParticipantState[PartT]:
    # Also an id that was never open is fenced: its prepare may still be on the way.
    control, part = participant.control, participant.part
    awaiting, is_tried = control.awaiting, wanted in (control.awaiting or ())
    if is_tried:
        # Any other resume is for a process that is gone.
        awaiting, part = None, part.open(now, emit)
    emit(_reply(call, is_repeated=not is_tried))
    resumed = remembered(control.resumed, wanted)
    control = attrs.evolve(control, resumed=resumed, awaiting=awaiting)
    return attrs.evolve(participant, part=part, control=control)


def expire(
    participant: ParticipantState[PartT], now: float, emit: Emit
) -> ParticipantState[PartT]:
    """Do the same for a checkpoint whose lease has run out."""
    opened = participant.control.open
    if opened is None or now < opened.expires_at:
        return participant
    drain = Draining(None, now + REOPEN_WAIT)
    return _start(participant, opened, drain, now, emit)


def _start(
    participant: ParticipantState[PartT],
    opened: Checkpoint,
    drain: Draining,
    now: float,
    emit: Emit,
) -> ParticipantState[PartT]:
    # A write must have stopped before admission opens: a manifest that appeared later
    # would be a checkpoint of a past that its coordinator has given up. A deletion must
    # be over: under the same names new sessions may be seeded, and it would take them.
    # It begins when the write is over, so there is never both to wait for.
    cut = opened.cut
    holder: Holder
    if cut is not None and cut.is_writing:
        emit(StopWrite(cut.number))
        holder = Stopping(drain.call, cut.number)
    elif opened.is_deleting:
        holder = drain
    else:
        return _finish(participant, opened, drain.call, now, emit)
    return participant.held_by(holder)


def write_stopped(
    participant: ParticipantState[PartT], event: WriteStopped, now: float, emit: Emit
) -> ParticipantState[PartT]:
    """Go on with the resume: from now on no manifest can appear."""
    holder, opened = participant.control.holder, participant.control.open
    if not isinstance(holder, Stopping) or opened is None:
        return participant
    if holder.write != event.write:
        return participant
    return _finish(participant, opened, holder.call, now, emit)


def settle(
    participant: ParticipantState[PartT], now: float, emit: Emit
) -> ParticipantState[PartT]:
    """Go on with a resume that waits for the commit's deletion, if that is over."""
    holder, opened = participant.control.holder, participant.control.open
    if not isinstance(holder, Draining) or opened is None or opened.is_deleting:
        return participant
    return _finish(participant, opened, holder.call, now, emit)


def time_out(
    participant: ParticipantState[PartT], now: float, emit: Emit
) -> ParticipantState[PartT]:
    """Give up waiting for a deletion; the participant stays closed.

    After an expired lease the lock is free for a while, so that a controller can get
    in, before the next attempt to reopen.
    """
    holder, opened = participant.control.holder, participant.control.open
    if not isinstance(holder, Draining) or opened is None or now < holder.until:
        return participant
    # Waiting on would keep the lock from the controller whose resume is to help.
    if holder.call is not None:
        detail = "restored sessions outside the scope are still being deleted"
        refuse(holder.call, "deadline_exceeded", detail, emit)
    if now >= opened.lease_expires_at:
        opened = attrs.evolve(opened, reopens_at=now + REOPEN_WAIT)
    control = attrs.evolve(participant.control, open=opened, holder=None)
    return participant.with_control(control)


def _finish(
    participant: ParticipantState[PartT],
    opened: Checkpoint,
    call: int | None,
    now: float,
    emit: Emit,
) -> ParticipantState[PartT]:
    part = participant.part.open(now, emit)
    if call is not None:
        emit(_reply(call, is_repeated=False))
    control = attrs.evolve(
        participant.control,
        open=None,
        holder=None,
        awaiting=None,
        resumed=remembered(participant.control.resumed, opened.id),
    )
    return attrs.evolve(participant, part=part, control=control)


def _reply(call: int, *, is_repeated: bool) -> Reply:
    document = JsonObject({"phase": Phase.IDLE.value, "idempotent": is_repeated})
    return Reply(call, 200, document)
