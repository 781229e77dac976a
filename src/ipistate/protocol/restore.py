"""``restore``: read a checkpoint into a fresh process, all or nothing.

See docs/reference/control-plane.md, section 2.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from ipistate.errors import CheckpointError
from ipistate.kernel import JsonObject
from ipistate.protocol.actions import Install, Read, Reply
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
    ParticipantState,
    Phase,
    Restoring,
)


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ipistate.protocol.episode import EpisodeId
    from ipistate.protocol.events import ControlCalled, ReadEnded
    from ipistate.protocol.gate import Emit
    from ipistate.protocol.operations import RestoreBody
    from ipistate.protocol.records import Restorable

_ALLOWED: Final = frozenset({Phase.IDLE})

NAMED: Final = 10
"""Retired attempts that a refusal names."""


def begin(
    participant: ParticipantState,
    called: ControlCalled,
    body: RestoreBody,
    now: float,
    emit: Emit,
) -> ParticipantState:
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


def _tried(participant: ParticipantState, checkpoint_id: str) -> ParticipantState:
    # If it fails, its controller resumes all the same, and starts its rollouts over.
    control = participant.control
    if control.awaiting is None:
        return participant
    awaiting = remembered(control.awaiting, checkpoint_id)
    return participant.with_control(attrs.evolve(control, awaiting=awaiting))


def read_ended(
    participant: ParticipantState, event: ReadEnded, emit: Emit
) -> ParticipantState:
    """Install what was read, or leave everything as it was."""
    holder, outcome = participant.control.holder, event.outcome
    if not isinstance(holder, Restoring) or holder.read != event.read:
        return participant
    participant = participant.held_by(None)
    if isinstance(outcome, CheckpointError):
        refuse(holder.call, outcome.code, outcome.message, emit)
        return participant
    # Asked only now: requests were served while the directory was read.
    if not participant.gate.is_fresh:
        detail = "only a process without sessions and requests in flight can restore"
        refuse(holder.call, "checkpoint_error", detail, emit)
        return participant
    # Each under its next attempt: what the interrupted one may still send is refused.
    episodes = {one.session_id: one.episode_id.next_attempt for one in outcome.records}
    covers = participant.gate.bindings.retired.covers
    retired = {one.capture_key for one in episodes.values() if covers(one)}
    if retired:
        refuse(holder.call, "stale_attempt", _retired(sorted(retired)), emit)
        return participant
    return _install(participant, holder, outcome, episodes, emit)


def _retired(keys: Sequence[str]) -> str:
    named = ", ".join(keys[:NAMED])
    more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
    return (
        f"these attempts were retired here: {named}{more}; forget their rollouts, "
        "or restore into a fresh process"
    )


def _install(
    participant: ParticipantState,
    holder: Restoring,
    found: Restorable,
    episodes: Mapping[str, EpisodeId],
    emit: Emit,
) -> ParticipantState:
    body = holder.body
    emit(Install({record.session_id: record.state for record in found.records}))
    document = _document(found.manifest.checkpoint_id, episodes.values())
    emit(Reply(holder.call, 200, document))
    opened = Checkpoint(id=body.checkpoint_id, phase=Phase.RESTORED)
    opened = renewed(opened, body, participant.settings)
    opened = completed(opened, Phase.RESTORED, body, document)
    # The gate closes with the installation and stays closed until the resume, so that
    # no agent continues before all participants have been restored.
    gate = participant.gate.install(episodes)
    return attrs.evolve(participant.opening(opened), gate=gate)


def _document(source: str, episodes: Iterable[EpisodeId]) -> JsonObject:
    return JsonObject(
        {
            "phase": Phase.RESTORED.value,
            "source_checkpoint_id": source,
            "restored": sorted(episode.capture_key for episode in episodes),
        }
    )
