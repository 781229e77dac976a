"""``commit``: export, write and delete once, however often it is called.

See docs/reference/control-plane.md, section 2.10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from ipistate.kernel import JsonObject
from ipistate.protocol.actions import Export, Free, Reply, Write
from ipistate.protocol.fencing import (
    completed,
    is_answered,
    is_late,
    refuse,
    renewed,
)
from ipistate.protocol.participant import (
    Arguments,
    Checkpoint,
    Committing,
    Cut,
    ParticipantState,
    Phase,
)
from ipistate.protocol.records import CheckpointRecord, Manifest


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ipistate.protocol.events import ControlCalled, Exported, Freed, WriteEnded
    from ipistate.protocol.operations import CommitBody
    from ipistate.protocol.parts.part import Emit, PartT

_ALLOWED: Final = frozenset({Phase.PREPARED})


def begin(
    participant: ParticipantState[PartT],
    called: ControlCalled,
    body: CommitBody,
    now: float,
    emit: Emit,
) -> ParticipantState[PartT]:
    """Start the export and the write, or join the ones that run already."""
    opened = participant.control.open
    if is_answered(participant, called, _ALLOWED, emit) or opened is None:
        return participant
    # The lease is extended even by a commit that is refused: its controller is alive.
    opened = renewed(opened, body, participant.settings)
    participant = participant.opening(opened)
    problem = _problem(participant, opened, body)
    if problem is not None:
        refuse(called.call, *problem, emit)
        return participant
    if is_late(called, "commit", now, emit):
        return participant
    participant = participant.held_by(Committing(called.call, body))
    if opened.cut is None:
        return _export(participant, opened, called.call, Arguments.of(body), emit)
    return _advance(participant, opened, opened.cut, emit)


def _problem(
    participant: ParticipantState[PartT], opened: Checkpoint, body: CommitBody
) -> tuple[str, str] | None:
    # Looked at again: participants freeze one after another, and a cut of sessions that
    # still change could not be told from a good one.
    part = participant.part
    if not part.is_ready:
        return "invalid_phase", "no longer ready: something runs again"
    arguments = Arguments.of(body)
    restarts = (arguments.kept or frozenset()).intersection(part.report().restarts)
    if restarts:
        detail = f"the scope names restarts, which no record keeps: {min(restarts)}"
        return "restart_in_scope", detail
    if opened.cut is not None and opened.cut.arguments != arguments:
        detail = "this checkpoint was exported for another directory or scope"
        return "checkpoint_conflict", detail
    return None


def _export(
    participant: ParticipantState[PartT],
    opened: Checkpoint,
    call: int,
    arguments: Arguments,
    emit: Emit,
) -> ParticipantState[PartT]:
    # Taken once: a retry after a failed write writes this same cut, or one id could
    # name two different checkpoints.
    selection = participant.part.select(arguments.kept)
    if isinstance(selection, str):
        refuse(call, "checkpoint_error", selection, emit)
        return participant.held_by(None)
    number = participant.control.issued + 1
    emit(Export(number, selection.keys, selection.leaked))
    cut = Cut(arguments=arguments, selection=selection, number=number)
    return _with_cut(participant, opened, cut)


def exported(
    participant: ParticipantState[PartT], event: Exported, emit: Emit
) -> ParticipantState[PartT]:
    """Keep what was handed over as the checkpoint's records."""
    opened, cut = _awaited(participant, event.write)
    if opened is None or cut is None:
        return participant
    part, records = participant.part.exported(cut.selection, event.states)
    participant = attrs.evolve(participant, part=part)
    return _advance(participant, opened, attrs.evolve(cut, records=records), emit)


def write_ended(
    participant: ParticipantState[PartT], event: WriteEnded, emit: Emit
) -> ParticipantState[PartT]:
    """Finish the commit, or let it fail; its records stay for a retry."""
    opened, cut = _awaited(participant, event.write)
    if opened is None or cut is None:
        return participant
    if isinstance(event.outcome, Manifest):
        cut = attrs.evolve(cut, is_writing=False, manifest=event.outcome)
        return _advance(participant, opened, cut, emit)
    participant = _with_cut(participant, opened, attrs.evolve(cut, is_writing=False))
    holder = participant.control.holder
    if not isinstance(holder, Committing):
        return participant
    refuse(holder.call, event.outcome.code, event.outcome.message, emit)
    return participant.held_by(None)


def _awaited(
    participant: ParticipantState[PartT], number: int
) -> tuple[Checkpoint | None, Cut | None]:
    # Answers to the writes of a checkpoint that was resumed come late and mean nothing.
    opened = participant.control.open
    if opened is None or opened.cut is None or opened.cut.number != number:
        return None, None
    return opened, opened.cut


def freed(
    participant: ParticipantState[PartT], event: Freed, emit: Emit
) -> ParticipantState[PartT]:
    """Go on without the deleted sessions; the same attempts may be seeded again."""
    opened = participant.control.open
    if opened is None or opened.cut is None or opened.cut.removal != event.removal:
        return participant
    cut = attrs.evolve(opened.cut, removal=None)
    # Nothing is admitted, so these are the ones that were to be freed.
    part = participant.part
    part = part.removed(part.unwanted(cut.arguments.kept))
    return _advance(attrs.evolve(participant, part=part), opened, cut, emit)


def _advance(
    participant: ParticipantState[PartT], opened: Checkpoint, cut: Cut, emit: Emit
) -> ParticipantState[PartT]:
    # One step towards the reply, if a caller waits for it: write, delete, answer.
    # Nothing is deleted before the manifest is out, so that at any crash each session
    # is in this process or in a published checkpoint.
    holder, number = participant.control.holder, participant.control.issued + 1
    records, manifest = cut.records, cut.manifest
    if not isinstance(holder, Committing) or records is None:
        return _with_cut(participant, opened, cut)
    unwanted = participant.part.unwanted(cut.arguments.kept)
    if manifest is None:
        if not cut.is_writing:
            emit(Write(number, cut.arguments.directory, opened.id, records))
            cut = attrs.evolve(cut, number=number, is_writing=True)
    elif unwanted:
        if cut.removal is None:
            emit(Free(number, unwanted))
            cut = attrs.evolve(cut, removal=number)
    else:
        document = _document(manifest, records, participant.part.committed(records))
        emit(Reply(holder.call, 200, document))
        opened = completed(opened, Phase.COMMITTED, holder.body, document)
        participant = participant.held_by(None)
    return _with_cut(participant, opened, cut)


def _document(
    manifest: Manifest,
    records: tuple[CheckpointRecord, ...],
    more: Mapping[str, object],
) -> JsonObject:
    keys = {record.episode_id.capture_key for record in records}
    return JsonObject(
        {
            "phase": Phase.COMMITTED.value,
            "manifest": manifest.to_document(),
            "episode_ids": sorted(keys),
            **more,
        }
    )


def _with_cut(
    participant: ParticipantState[PartT], opened: Checkpoint, cut: Cut
) -> ParticipantState[PartT]:
    control = attrs.evolve(
        participant.control,
        open=attrs.evolve(opened, cut=cut),
        issued=max(participant.control.issued, cut.number, cut.removal or 0),
    )
    return participant.with_control(control)
