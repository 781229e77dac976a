"""``retire``: refuse attempts from now on, wait for what they do, free what they have.

``forget`` drops what retiring has left, once nothing of it can run. See
docs/reference/control-plane.md, sections 2.12 and 3.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ipistate.kernel import JsonObject
from ipistate.protocol.actions import Reply
from ipistate.protocol.fencing import is_late, is_refused, refuse, with_lease
from ipistate.protocol.participant import ParticipantState, Retiring
from ipistate.protocol.parts.retired_attempts import highest


if TYPE_CHECKING:
    from ipistate.protocol.events import ControlCalled, Freed
    from ipistate.protocol.operations import ForgetBody, RetireBody
    from ipistate.protocol.parts.part import Emit, PartT


def begin(
    participant: ParticipantState[PartT],
    called: ControlCalled,
    body: RetireBody,
    now: float,
    emit: Emit,
) -> ParticipantState[PartT]:
    """Raise the marks, which stay even if the call fails; ``settle`` does the rest."""
    if is_refused(participant, called, emit):
        return participant
    participant = with_lease(participant, body)
    # The marks come first and even if it is too late for the rest: once a coordinator
    # has asked, no request of these attempts may get in, even if it never learns of the reply.
    part = participant.part.marked(highest(body.episode_ids))
    participant = attrs.evolve(participant, part=part)
    if is_late(called, "retire", now, emit):
        return participant
    return participant.held_by(Retiring(called.call, body))


def settle(
    participant: ParticipantState[PartT], now: float, emit: Emit
) -> ParticipantState[PartT]:
    """Free what nothing uses any more, and answer when all of it is free."""
    control, part = participant.control, participant.part
    holder = control.holder
    if not isinstance(holder, Retiring):
        return participant
    attempts = highest(holder.body.episode_ids)
    if part.leaving(attempts):
        number = control.issued + 1
        freeing = part.freeing(attempts, number, now, emit)
        if freeing is part:
            return participant
        control = attrs.evolve(control, issued=number)
        return settle(
            ParticipantState(participant.settings, freeing, control), now, emit
        )
    keys = tuple(episode.capture_key for episode in holder.body.episode_ids)
    emit(Reply(holder.call, 200, JsonObject({"retired": keys})))
    return participant.held_by(None)


def freed(
    participant: ParticipantState[PartT], event: Freed
) -> ParticipantState[PartT]:
    """Go on without what a removal has freed."""
    part = participant.part.freed(event.removal)
    return attrs.evolve(participant, part=part)


def forget(
    participant: ParticipantState[PartT],
    called: ControlCalled,
    body: ForgetBody,
    now: float,
    emit: Emit,
) -> ParticipantState[PartT]:
    """Forget these rollouts, or refuse the call and forget none of them."""
    if is_refused(participant, called, emit):
        return participant
    participant = with_lease(participant, body)
    if is_late(called, "forget", now, emit):
        return participant
    part, rollouts = participant.part, frozenset(body.rollout_ids)
    marks = part.retired.marks
    attempts = {r: a for r, a in marks.items() if r in rollouts}
    if part.leaving(attempts):
        detail = "sessions of a retired attempt are not freed yet; retire it again"
        refuse(called.call, "retire_incomplete", detail, emit)
        return participant
    emit(Reply(called.call, 200, JsonObject({"forgotten": sorted(rollouts)})))
    return attrs.evolve(participant, part=part.forgotten(rollouts))
