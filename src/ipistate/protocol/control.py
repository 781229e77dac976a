"""The control machine: ``handle(state, event, now)`` gives a new state and actions.

It never waits, locks or does I/O. One operation at a time holds the lock, the others
queue behind it; a waiting prepare and ``status`` do without.
"""

from __future__ import annotations

import math

from typing import TYPE_CHECKING

import attrs

from ipistate.protocol import commit, prepare, restore, resume, retire
from ipistate.protocol.actions import Action, SetTimer
from ipistate.protocol.events import (
    ControlCalled,
    ControlDropped,
    Event,
    Exported,
    Freed,
    Installed,
    PartEvent,
    ReadEnded,
    WriteEnded,
    WriteStopped,
)
from ipistate.protocol.fencing import refuse, renew
from ipistate.protocol.operations import (
    CommitBody,
    ForgetBody,
    PrepareBody,
    RenewBody,
    RestoreBody,
    RetireBody,
)
from ipistate.protocol.participant import (
    ControlState,
    Draining,
    Installing,
    ParticipantState,
    Stopping,
)


if TYPE_CHECKING:
    from ipistate.protocol.participant import Holder
    from ipistate.protocol.parts.part import Emit, PartT


def handle(
    participant: ParticipantState[PartT], event: Event, now: float
) -> tuple[ParticipantState[PartT], tuple[Action, ...]]:
    """Take one event at a time (seconds since the epoch).

    Returns:
        The participant after it, and what to do, in order. ``participant`` itself does
        not change, so an event can be tried and thrown away.
    """
    actions: list[Action] = []
    emit = actions.append
    # What was due before this event is settled before it, as if the timer had been on
    # time: a call must not meet its deadline only because the loop was busy.
    is_due = now >= participant.control.due
    if is_due and not _leaves(participant, event):
        participant, is_due = _settle(participant, now, emit), False
    after = _apply(participant, event, now, emit)
    # Most events are requests, and no operation waits for them: nothing to settle then.
    control = after.control
    if is_due or control is not participant.control or control.awaits_requests:
        after = _settle(after, now, emit)
    return after, tuple(actions)


def _leaves(participant: ParticipantState[PartT], event: Event) -> bool:
    # A client that goes away comes first: settling would answer it, or let it in.
    if isinstance(event, PartEvent):
        return participant.part.leaves(event)
    return isinstance(event, ControlDropped)


def _apply(
    participant: ParticipantState[PartT], event: Event, now: float, emit: Emit
) -> ParticipantState[PartT]:
    match event:
        case ControlCalled():
            control, queue = participant.control, (*participant.control.queue, event)
            return participant.with_control(attrs.evolve(control, queue=queue))
        case ControlDropped():
            return _drop(participant, event.call, now, emit)
        case Exported():
            return commit.exported(participant, event, emit)
        case WriteEnded():
            return commit.write_ended(participant, event, emit)
        case WriteStopped():
            return resume.write_stopped(participant, event, now, emit)
        case ReadEnded():
            return restore.read_ended(participant, event, emit)
        case Installed():
            return restore.installed(participant, event, now, emit)
        case Freed():
            participant = retire.freed(participant, event)
            participant = commit.freed(participant, event, emit)
            return resume.settle(participant, now, emit)
        case PartEvent():
            part = participant.part.take(event, now, emit)
            return ParticipantState(participant.settings, part, participant.control)
        case _:
            # A tick may come early; forgetting the due time arms the timer again.
            control = attrs.evolve(participant.control, due=math.inf)
            return participant.with_control(control)


def _drop(
    participant: ParticipantState[PartT], call: int, now: float, emit: Emit
) -> ParticipantState[PartT]:
    control = participant.control
    holder, queue = control.holder, control.queue
    if holder is not None and holder.call == call:
        # What the call started goes on: a retry joins a write, a resume is finished.
        if isinstance(holder, Stopping | Draining | Installing):
            return participant.held_by(attrs.evolve(holder, call=None))
        return participant.held_by(None)
    rest = tuple(called for called in queue if called.call != call)
    if len(rest) < len(queue):
        return participant.with_control(attrs.evolve(control, queue=rest))
    return prepare.drop(participant, call, now, emit)


def _settle(
    participant: ParticipantState[PartT], now: float, emit: Emit
) -> ParticipantState[PartT]:
    """Do everything that can be done now, then set the timer for what cannot."""
    participant = _time_out(participant, now, emit)
    while True:
        participant = prepare.settle(participant, now, emit)
        participant = retire.settle(participant, now, emit)
        control = participant.control
        if control.holder is not None:
            break
        # Queued calls first: they came before the lease ran out, and extend it.
        if control.queue:
            participant = _begin(participant, now, emit)
            continue
        expired = resume.expire(participant, now, emit)
        if expired is participant:
            break
        participant = expired
    return _arm(participant, emit)


def _time_out(
    participant: ParticipantState[PartT], now: float, emit: Emit
) -> ParticipantState[PartT]:
    holder = participant.control.holder
    if holder is None or isinstance(holder, Stopping):
        return participant
    if isinstance(holder, Draining):
        return resume.time_out(participant, now, emit)
    if now < holder.body.deadline_ts or holder.call is None:
        return participant
    # Only the wait ends. A write or a deletion cannot be taken back half-way, so a retry
    # joins it instead of starting another one; after an installation it begins again.
    detail = "the deadline passed; what was started goes on"
    refuse(holder.call, "deadline_exceeded", detail, emit)
    if isinstance(holder, Installing):
        return participant.held_by(attrs.evolve(holder, call=None))
    return participant.held_by(None)


def _begin(
    participant: ParticipantState[PartT], now: float, emit: Emit
) -> ParticipantState[PartT]:
    called, *rest = participant.control.queue
    control = attrs.evolve(participant.control, queue=tuple(rest))
    participant = participant.with_control(control)
    match called.body:
        case PrepareBody():
            return prepare.begin(participant, called, now, emit)
        case RenewBody():
            return renew(participant, called, emit)
        case CommitBody():
            return commit.begin(participant, called, called.body, now, emit)
        case RestoreBody():
            return restore.begin(participant, called, called.body, now, emit)
        case RetireBody():
            return retire.begin(participant, called, called.body, now, emit)
        case ForgetBody():
            return retire.forget(participant, called, called.body, now, emit)
        case _:
            return resume.begin(participant, called.call, called.body, now, emit)


def _arm(participant: ParticipantState[PartT], emit: Emit) -> ParticipantState[PartT]:
    due = _due(participant.control)
    if due == participant.control.due:
        return participant
    emit(SetTimer(None if due == math.inf else due))
    return participant.with_control(attrs.evolve(participant.control, due=due))


def _due(control: ControlState) -> float:
    holder, opened = control.holder, control.open
    times = [called.body.deadline_ts for called in control.prepares]
    if holder is not None:
        times.append(_deadline(holder))
    elif opened is not None:
        times.append(opened.expires_at)
    return min(times, default=math.inf)


def _deadline(holder: Holder) -> float:
    match holder:
        case Stopping():
            return math.inf
        case Draining():
            return holder.until
        case Installing(call=None):
            return math.inf
        case _:
            return holder.body.deadline_ts
