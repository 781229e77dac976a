"""``restore``: read a checkpoint into a fresh process, all or nothing.

See docs/reference/control-plane.md, section 2.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from ipistate.errors import CheckpointError
from ipistate.kernel import JsonObject
from ipistate.protocol.actions import Read, Reply
from ipistate.protocol.fencing import (
    completed,
    is_answered,
    is_late,
    refuse,
    remembered,
    renewed,
)
from ipistate.protocol.participant import (
    Checkpoint,
    Installing,
    ParticipantState,
    Phase,
    Restoring,
)


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ipistate.protocol.episode import EpisodeId
    from ipistate.protocol.events import ControlCalled, Installed, ReadEnded
    from ipistate.protocol.operations import RestoreBody
    from ipistate.protocol.parts.part import Emit, PartT
    from ipistate.protocol.records import CheckpointRecord, Restorable

_ALLOWED: Final = frozenset({Phase.IDLE})

NAMED: Final = 10
"""Retired attempts that a refusal names."""


def begin(
    participant: ParticipantState[PartT],
    called: ControlCalled,
    body: RestoreBody,
    now: float,
    emit: Emit,
) -> ParticipantState[PartT]:
    """Start to read the directory; requests are served meanwhile."""
    if is_answered(participant, called, _ALLOWED, emit):
        return participant
    participant = _tried(participant, body.checkpoint_id)
    if is_late(called, "restore", now, emit):
        return participant
    number = participant.control.issued + 1
    emit(Read(number, body.checkpoint_dir, body.episode_ids))
    holder = Restoring(called.call, body, number)
    control = attrs.evolve(participant.control, holder=holder, issued=number)
    return participant.with_control(control)


def _tried(
    participant: ParticipantState[PartT], checkpoint_id: str
) -> ParticipantState[PartT]:
    # If it fails, its controller resumes all the same, and starts its rollouts over.
    control = participant.control
    if control.awaiting is None:
        return participant
    awaiting = remembered(control.awaiting, checkpoint_id)
    return participant.with_control(attrs.evolve(control, awaiting=awaiting))


def read_ended(
    participant: ParticipantState[PartT], event: ReadEnded, emit: Emit
) -> ParticipantState[PartT]:
    """Install what was read, or leave everything as it was."""
    holder, outcome = participant.control.holder, event.outcome
    if not isinstance(holder, Restoring) or holder.read != event.read:
        return participant
    participant = participant.held_by(None)
    if isinstance(outcome, CheckpointError):
        refuse(holder.call, outcome.code, outcome.message, emit)
        return participant
    # Asked only now: requests were served while the directory was read.
    objection = participant.part.objection()
    if objection is not None:
        refuse(holder.call, "checkpoint_error", objection, emit)
        return participant
    covers = participant.part.retired.covers
    retired = {one.capture_key for one in _episodes(outcome) if covers(one)}
    if retired:
        refuse(holder.call, "stale_attempt", _retired(sorted(retired)), emit)
        return participant
    return _install(participant, holder, outcome, emit)


def _episodes(found: Restorable[CheckpointRecord]) -> list[EpisodeId]:
    # Each under its next attempt: what the interrupted one may still send is refused.
    return [record.episode_id.next_attempt for record in found.records]


def _retired(keys: Sequence[str]) -> str:
    named = ", ".join(keys[:NAMED])
    more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
    return (
        f"these attempts were retired here: {named}{more}; forget their rollouts, "
        "or restore into a fresh process"
    )


def _install(
    participant: ParticipantState[PartT],
    holder: Restoring,
    found: Restorable[CheckpointRecord],
    emit: Emit,
) -> ParticipantState[PartT]:
    # Admission closes with the installation and stays closed until the resume, so that
    # no agent continues before all participants have been restored.
    scope = holder.body.episode_ids
    part = participant.part.install(found.records, scope, holder.read, emit)
    participant = attrs.evolve(participant, part=part)
    if part.is_installing:
        installing = Installing(holder.call, holder.body, holder.read, found)
        return participant.held_by(installing)
    return _restored(participant, holder.call, holder.body, found, emit)


def installed(
    participant: ParticipantState[PartT], event: Installed, now: float, emit: Emit
) -> ParticipantState[PartT]:
    """Finish the restore, or leave everything as it was."""
    holder, problem = participant.control.holder, event.problem
    if not isinstance(holder, Installing) or holder.read != event.read:
        return participant
    call = holder.call
    if call is None:
        # Its caller was told that it failed, or left; nothing would ever resume it.
        detail = "nobody waits for this restore any more"
        problem = CheckpointError("deadline_exceeded", detail)
    part = participant.part.installed(problem, now, emit)
    participant = attrs.evolve(participant, part=part).held_by(None)
    if call is None:
        return participant
    if problem is None:
        return _restored(participant, call, holder.body, holder.found, emit)
    refuse(call, problem.code, problem.message, emit)
    return participant


def _restored(
    participant: ParticipantState[PartT],
    call: int,
    body: RestoreBody,
    found: Restorable[CheckpointRecord],
    emit: Emit,
) -> ParticipantState[PartT]:
    document = _document(found.manifest.checkpoint_id, _episodes(found))
    emit(Reply(call, 200, document))
    opened = Checkpoint(id=body.checkpoint_id, phase=Phase.RESTORED)
    opened = renewed(opened, body, participant.settings)
    return participant.opening(completed(opened, Phase.RESTORED, body, document))


def _document(source: str, episodes: Iterable[EpisodeId]) -> JsonObject:
    return JsonObject(
        {
            "phase": Phase.RESTORED.value,
            "source_checkpoint_id": source,
            "restored": sorted(episode.capture_key for episode in episodes),
        }
    )
