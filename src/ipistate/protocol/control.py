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
    IdleFound,
    ReadEnded,
    RequestArrived,
    RequestEnded,
    SessionsMade,
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
    ParticipantState,
    Stopping,
)


if TYPE_CHECKING:
    from ipistate.protocol.gate import Emit
    from ipistate.protocol.participant import Holder


def handle(
    participant: ParticipantState, event: Event, now: float
) -> tuple[ParticipantState, tuple[Action, ...]]:
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
    after = _apply(participant, event, emit)
    # Most events are requests, and no operation waits for them: nothing to settle then.
    control = after.control
    if is_due or control is not participant.control or control.awaits_requests:
        after = _settle(after, now, emit)
    return after, tuple(actions)


def enter(
    participant: ParticipantState, event: RequestArrived, now: float
) -> ParticipantState | None:
    """Admit a request that nothing forbids, in one short step.

    Nearly all requests meet an open gate while no operation waits for anything, and
    this is what ``handle`` then does.

    Returns:
        The participant that ``handle`` gives together with the one action ``Admit``.
        None if it gives anything else.
    """
    if not _is_at_rest(participant.control, now):
        return None
    gate = participant.gate.enter(event)
    if gate is None:
        return None
    return ParticipantState(participant.settings, gate, participant.control)


def leave(
    participant: ParticipantState, event: RequestEnded, now: float
) -> ParticipantState | None:
    """Take the end of a request that no operation waits for, in one short step.

    Returns:
        The participant that ``handle`` gives without any action. None if there is more
        to do.
    """
    if not _is_at_rest(participant.control, now):
        return None
    gate = participant.gate.end(event)
    return ParticipantState(participant.settings, gate, participant.control)


def _is_at_rest(control: ControlState, now: float) -> bool:
    return now < control.due and not control.awaits_requests


def _leaves(participant: ParticipantState, event: Event) -> bool:
    # A client that goes away comes first: settling would answer it, or let it in.
    if isinstance(event, RequestEnded):
        return event.request in participant.gate.waiting
    return isinstance(event, ControlDropped)


def _apply(  # noqa: C901 - one case for each event
    participant: ParticipantState, event: Event, emit: Emit
) -> ParticipantState:
    gate = participant.gate
    match event:
        case RequestArrived():
            gate = gate.arrive(event, emit)
        case RequestEnded():
            gate = gate.end(event)
        case SessionsMade():
            gate = gate.make(event, emit)
        case IdleFound():
            gate = gate.sweep(event, emit)
        case ControlCalled():
            control, queue = participant.control, (*participant.control.queue, event)
            return participant.with_control(attrs.evolve(control, queue=queue))
        case ControlDropped():
            return _drop(participant, event.call, emit)
        case Exported():
            return commit.exported(participant, event, emit)
        case WriteEnded():
            return commit.write_ended(participant, event, emit)
        case WriteStopped():
            return resume.write_stopped(participant, event, emit)
        case ReadEnded():
            return restore.read_ended(participant, event, emit)
        case Freed():
            participant = retire.freed(participant, event)
            participant = commit.freed(participant, event, emit)
            return resume.settle(participant, emit)
        case _:
            # A tick may come early; forgetting the due time arms the timer again.
            control = attrs.evolve(participant.control, due=math.inf)
            return participant.with_control(control)
    return ParticipantState(participant.settings, gate, participant.control)


def _drop(participant: ParticipantState, call: int, emit: Emit) -> ParticipantState:
    control = participant.control
    holder, queue = control.holder, control.queue
    if holder is not None and holder.call == call:
        # What the call started goes on: a retry joins a write, a resume is finished.
        if isinstance(holder, Stopping | Draining):
            return participant.held_by(attrs.evolve(holder, call=None))
        return participant.held_by(None)
    rest = tuple(called for called in queue if called.call != call)
    if len(rest) < len(queue):
        return participant.with_control(attrs.evolve(control, queue=rest))
    return prepare.drop(participant, call, emit)


def _settle(participant: ParticipantState, now: float, emit: Emit) -> ParticipantState:
    """Do everything that can be done now, then set the timer for what cannot."""
    participant = _time_out(participant, now, emit)
    while True:
        participant = prepare.settle(participant, now, emit)
        participant = retire.settle(participant, emit)
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
    participant: ParticipantState, now: float, emit: Emit
) -> ParticipantState:
    holder = participant.control.holder
    if holder is None or isinstance(holder, Stopping):
        return participant
    if isinstance(holder, Draining):
        return resume.time_out(participant, now, emit)
    if now < holder.body.deadline_ts:
        return participant
    # Only the wait ends. A write or a deletion cannot be taken back half-way, so a retry
    # joins it instead of starting another one.
    detail = "the deadline passed; what was started goes on"
    refuse(holder.call, "deadline_exceeded", detail, emit)
    return participant.held_by(None)


def _begin(participant: ParticipantState, now: float, emit: Emit) -> ParticipantState:
    called, *rest = participant.control.queue
    control = attrs.evolve(participant.control, queue=tuple(rest))
    participant = participant.with_control(control)
    match called.body:
        case PrepareBody():
            return prepare.begin(participant, called, emit)
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


def _arm(participant: ParticipantState, emit: Emit) -> ParticipantState:
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
        case _:
            return holder.body.deadline_ts
