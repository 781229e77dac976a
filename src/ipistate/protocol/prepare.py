"""``prepare``: close admission, then wait until nothing is in flight.

See docs/reference/control-plane.md, section 2.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from ipistate.kernel import JsonObject
from ipistate.protocol.actions import Reply
from ipistate.protocol.fencing import completed, is_answered, refuse, renewed
from ipistate.protocol.participant import Checkpoint, ParticipantState, Phase


if TYPE_CHECKING:
    from ipistate.protocol.events import ControlCalled
    from ipistate.protocol.parts.part import Emit, PartT

_ALLOWED: Final = frozenset({Phase.IDLE, Phase.PREPARING})


def begin(
    participant: ParticipantState[PartT], called: ControlCalled, now: float, emit: Emit
) -> ParticipantState[PartT]:
    """Close admission and wait; ``settle`` answers, at once if it can."""
    if is_answered(participant, called, _ALLOWED, emit):
        return participant
    if participant.control.awaiting is not None:
        # Its checkpoint would lack every session that the process before it had.
        detail = "this process waits for a restore"
        refuse(called.call, "invalid_phase", detail, emit)
        return participant
    control, body = participant.control, called.body
    opened = control.open or Checkpoint(id=body.checkpoint_id, phase=Phase.PREPARING)
    control = attrs.evolve(
        control,
        open=renewed(opened, body, participant.settings),
        prepares=(*control.prepares, called),
    )
    # The gate closes before anything is counted: what arrives from now on waits, so
    # the number of requests in flight can only fall.
    part = participant.part.close(now, body.deadline_ts, emit)
    return attrs.evolve(participant, part=part, control=control)


def settle(
    participant: ParticipantState[PartT], now: float, emit: Emit
) -> ParticipantState[PartT]:
    """Answer the prepares that are done, overtaken or out of time."""
    control = participant.control
    if not control.prepares:
        return participant
    opened = control.open
    if opened is not None and participant.part.is_ready:
        body = control.prepares[0].body
        document = _document(participant, Phase.PREPARED)
        opened = completed(opened, Phase.PREPARED, body, document)
        participant = participant.opening(opened)
    return _answer(participant, now, emit)


def _answer(
    participant: ParticipantState[PartT], now: float, emit: Emit
) -> ParticipantState[PartT]:
    control, phase = participant.control, participant.phase
    waiting: list[ControlCalled] = []
    for called in control.prepares:
        if phase is Phase.PREPARING and now < called.body.deadline_ts:
            waiting.append(called)
        else:
            # Being out of time is no failure: the gate stays closed, and the call may
            # be repeated with a later deadline.
            emit(Reply(called.call, 200, _document(participant, phase)))
    return participant.with_control(attrs.evolve(control, prepares=tuple(waiting)))


def _document(participant: ParticipantState[PartT], phase: Phase) -> JsonObject:
    report = participant.part.report().to_document()
    return JsonObject({"phase": phase.value, "report": report})


def drop(
    participant: ParticipantState[PartT], call: int, now: float, emit: Emit
) -> ParticipantState[PartT]:
    """Reopen if the caller of a waiting prepare goes away."""
    control = participant.control
    rest = tuple(called for called in control.prepares if called.call != call)
    if len(rest) == len(control.prepares):
        return participant
    # Nothing has been promised yet, so the id is not fenced and a retry may use it.
    control = attrs.evolve(control, open=None, prepares=rest)
    part = participant.part.open(now, emit)
    return attrs.evolve(participant, part=part, control=control)
