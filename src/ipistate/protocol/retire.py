"""``retire``: refuse attempts from now on, wait for what they do, free their sessions.

``forget`` drops what retiring has left, once nothing of it can run. See
docs/reference/control-plane.md, sections 2.12 and 3.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ipistate.kernel import JsonObject
from ipistate.protocol.actions import Free, Reply
from ipistate.protocol.fencing import is_late, is_refused, refuse, with_lease
from ipistate.protocol.participant import ParticipantState, Retiring
from ipistate.protocol.retired_attempts import highest


if TYPE_CHECKING:
    from collections.abc import Iterable

    from ipistate.protocol.events import ControlCalled, Freed
    from ipistate.protocol.gate import Emit
    from ipistate.protocol.operations import ForgetBody, RetireBody
    from ipistate.protocol.session_registry import SessionRegistry


def begin(
    participant: ParticipantState,
    called: ControlCalled,
    body: RetireBody,
    now: float,
    emit: Emit,
) -> ParticipantState:
    """Raise the marks, which stay even if the call fails; ``settle`` does the rest."""
    if is_refused(participant, called, emit):
        return participant
    participant = with_lease(participant, body)
    # The marks come first and even if it is too late for the rest: once a coordinator
    # has asked, no request of these attempts may get in, even if it never learns of the reply.
    bindings = participant.gate.bindings.marked(highest(body.episode_ids))
    participant = _with_bindings(participant, bindings)
    if is_late(called, "retire", now, emit):
        return participant
    return participant.held_by(Retiring(called.call, body))


def _with_bindings(
    participant: ParticipantState, bindings: SessionRegistry
) -> ParticipantState:
    gate = attrs.evolve(participant.gate, bindings=bindings)
    return attrs.evolve(participant, gate=gate)


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
        return participant  # it may yet make a session, which is then retired as well
    keys = tuple(episode.capture_key for episode in holder.body.episode_ids)
    emit(Reply(holder.call, 200, JsonObject({"retired": keys})))
    return participant.held_by(None)


def _free(
    participant: ParticipantState, leaving: Iterable[str], emit: Emit
) -> ParticipantState:
    control, bindings = participant.control, participant.gate.bindings
    # A request inside still works with its session's state; that one is freed when the
    # request has ended.
    busy, number = participant.gate.busy(), control.issued + 1
    idle = tuple(s for s in leaving if bindings.leaving[s] is None and s not in busy)
    if not idle:
        return participant
    emit(Free(number, idle))
    participant = _with_bindings(participant, bindings.removing(number, idle))
    return participant.with_control(attrs.evolve(control, issued=number))


def freed(participant: ParticipantState, event: Freed) -> ParticipantState:
    """Stop tracking sessions that hold nothing any more."""
    gate = participant.gate
    gone = gate.bindings.removed_by(event.removal)
    if not gone:
        return participant
    return attrs.evolve(participant, gate=gate.untrack(gone))


def forget(
    participant: ParticipantState,
    called: ControlCalled,
    body: ForgetBody,
    now: float,
    emit: Emit,
) -> ParticipantState:
    """Forget these rollouts, or refuse the call and forget none of them."""
    if is_refused(participant, called, emit):
        return participant
    participant = with_lease(participant, body)
    if is_late(called, "forget", now, emit):
        return participant
    gate, rollouts = participant.gate, frozenset(body.rollout_ids)
    retired = gate.bindings.retired
    attempts = {r: a for r, a in retired.marks.items() if r in rollouts}
    if gate.bindings.leaving_of(attempts) or gate.is_seeding(attempts):
        detail = "sessions of a retired attempt are not freed yet; retire it again"
        refuse(called.call, "retire_incomplete", detail, emit)
        return participant
    emit(Reply(called.call, 200, JsonObject({"forgotten": sorted(rollouts)})))
    bindings = attrs.evolve(gate.bindings, retired=retired.forgotten(rollouts))
    return _with_bindings(participant, bindings)
