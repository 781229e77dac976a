"""The part of a policy model: calls on their way, and the rows of the capture ledger.

A prepare never waits for a generation: the response of a call is held while a checkpoint
is open, and the call is not in the records, so its agent makes it again after a crash.
See docs/reference/control-plane.md, section 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self, cast

import attrs

from ipistate.capture import (
    LedgerRow,
    stamped,
)
from ipistate.errors import CheckpointError
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.events import PartEvent
from ipistate.protocol.parts.cuttable_calls import (
    CuttableCalls,
    is_undelivered,
    key_of,
)
from ipistate.protocol.parts.live_calls import refuse_stale, without
from ipistate.protocol.parts.model_events import (
    CallArrived,
    CallCaptured,
    CallEnded,
    CancelCall,
    CutsEnded,
    ImportLedger,
    ResponseReady,
    RetireLedger,
)
from ipistate.protocol.parts.model_records import ModelRecord
from ipistate.protocol.parts.part import Emit, Readiness, Selection
from ipistate.protocol.parts.retired_attempts import is_among
from ipistate.protocol.records import CheckpointRecord


_NONE: Final[Mapping[Any, Any]] = MappingProxyType({})


@attrs.frozen(kw_only=True)
class ModelPart(CuttableCalls):
    """What the control machine asks of a policy model, beside its data plane."""

    kind: ClassVar[str] = "model"

    @property
    def is_ready(self) -> bool:
        """No response is on its way, and no round of cuts under way."""
        return not self.started and self.cutting is None

    def take(self, event: PartEvent, now: float, emit: Emit) -> Self:
        """Take the arrival of a call, or what becomes of it."""
        del now
        match event:
            case CallArrived():
                return self.arrive(event, emit)
            case CallCaptured():
                return self.captured(event)
            case CutsEnded():
                return self.end_cuts(event)
            case ResponseReady(request):
                return self.respond(request, emit)
            case CallEnded(request):
                return self.ended(request)
            case _:
                return self

    def leaves(self, event: PartEvent) -> bool:
        """Tell whether a client goes away whose call waits."""
        return isinstance(event, CallEnded) and event.request in self.waiting

    def close(self, now: float, deadline: float, emit: Emit) -> Self:
        """Let calls wait, hold responses that have not started, and have these cut."""
        if not self.is_open:
            return self
        # Half of the time, so that a slow worker cannot use up a prepare.
        until = now + (deadline - now) / 2
        return attrs.evolve(self, is_open=False).begin_cuts(until, emit)

    def open(self, now: float, emit: Emit) -> Self:
        """Send what was held, then admit what waited."""
        del now
        uncut = {n: attrs.evolve(one, cut=None) for n, one in self.tickets.items()}
        after = attrs.evolve(
            self, is_open=True, waiting=_NONE, tickets=uncut, cutting=None
        )
        for request, ticket in self.tickets.items():
            if ticket.is_held:
                after = after.respond(request, emit)
        for event in self.waiting.values():
            after = after.arrive(event, emit)
        return after

    def report(self) -> Readiness:
        """Count calls; blockers are those whose response is on its way."""
        tickets = tuple(self.tickets.values())
        blockers = {key_of(ticket) for ticket in tickets if ticket.is_started}
        return Readiness(
            ready=self.is_ready,
            blockers=tuple(sorted(blockers)),
            counts={
                "inflight": len(tickets),
                "held": sum(not ticket.is_started for ticket in tickets),
                **self.cut_counts(),
            },
        )

    def status(self) -> Mapping[str, object]:
        """Name the restored cuts that no call has continued."""
        return {"restored_generation_cuts": sorted(self.restored_cuts)}

    # Commit

    def select(self, scope: frozenset[str] | None) -> Selection | str:
        """Ask for the ledgers of the scope: rows of others mean nothing to anybody."""
        if scope is None:
            return "a policy model needs a scope: it records the calls of episodes"
        return Selection(keys=tuple(sorted(scope)))

    def exported(
        self, selection: Selection, states: Mapping[str, object]
    ) -> tuple[Self, tuple[ModelRecord, ...]]:
        """Make the records: a call that was not delivered is made again."""
        undelivered = {
            ticket.model_call_id
            for ticket in self.tickets.values()
            if is_undelivered(ticket)
        }
        records: list[ModelRecord] = []
        for key in selection.keys:
            ledger = cast("Sequence[LedgerRow]", states.get(key, ()))
            rows = tuple(r for r in ledger if r.model_call_id not in undelivered)
            cuts = self.cuts_of(key)
            if rows or cuts:
                episode = EpisodeId.from_capture_key(key)
                record = ModelRecord(
                    episode_id=episode, rows=rows, generation_cuts=cuts
                )
                records.append(record)
        return self, tuple(records)

    def committed(self, records: Sequence[CheckpointRecord]) -> Mapping[str, object]:
        """Name the staged entries that a trainer must keep."""
        found = cast("Sequence[ModelRecord]", records)  # as this kind makes them
        by_episode = {
            one.episode_id.capture_key: list(one.staging_keys) for one in found
        }
        every = {key for keys in by_episode.values() for key in keys}
        return {"staging_keys": sorted(every), "staging_keys_by_episode": by_episode}

    def unwanted(self, scope: frozenset[str] | None) -> tuple[str, ...]:
        """Name attempts that no call has reached and the scope gives up."""
        return () if scope is None else tuple(sorted(self.restored.keys() - scope))

    def removed(self, keys: Sequence[str]) -> Self:
        """Drop them; the shell has deleted their ledgers, without a fence."""
        return attrs.evolve(
            self,
            restored=without(self.restored, *keys),
            restored_cuts=without(self.restored_cuts, *keys),
        )

    # Restore

    def objection(self) -> str | None:
        """Refuse to replace ledgers that calls are added to."""
        if self.has_served:
            return "only a process that has served no call can restore"
        return None

    def install(
        self,
        records: Sequence[CheckpointRecord],
        scope: Sequence[EpisodeId],
        number: int,
        emit: Emit,
    ) -> Self:
        """Have the ledgers of the next attempts replaced, closed until the resume.

        An episode without a record gets an empty one: what a dead execution has left
        for that attempt must not become part of it.
        """
        found = {one.episode_id: one for one in cast("Sequence[ModelRecord]", records)}
        ledgers: dict[str, tuple[LedgerRow, ...]] = {}
        restored: dict[str, ModelRecord] = {}
        for episode in scope:
            record = found.get(episode) or ModelRecord(episode_id=episode)
            key = episode.next_attempt.capture_key
            rows = (stamped(row, episode.capture_key) for row in record.rows)
            ledgers[key], restored[key] = tuple(rows), record
        emit(ImportLedger(number, ledgers, _up_to(scope)))
        cuts = {
            key: one.generation_cuts[0]
            for key, one in restored.items()
            if one.generation_cuts
        }
        return attrs.evolve(
            self,
            is_open=False,
            importing=number,
            restored=restored,
            restored_cuts=cuts,
        )

    @property
    def is_installing(self) -> bool:
        """Whether ledgers are being replaced."""
        return self.importing is not None

    def installed(
        self, problem: CheckpointError | None, now: float, emit: Emit
    ) -> Self:
        """Take the end of the import; after one that failed calls are admitted again."""
        after = attrs.evolve(self, importing=None)
        if problem is None:
            return after
        return attrs.evolve(after, restored=_NONE, restored_cuts=_NONE).open(now, emit)

    # Retire

    def marked(self, attempts: Mapping[str, int]) -> Self:
        """Refuse these attempts and all earlier ones."""
        return attrs.evolve(self, retired=self.retired.marked(attempts))

    def leaving(self, attempts: Mapping[str, int]) -> bool:
        """Tell whether a call of these attempts runs, or their ledgers are not retired."""
        return any(self._covered(attempts)) or any(
            self.fenced.get(rollout, -1) < attempt
            for rollout, attempt in attempts.items()
        )

    def freeing(
        self, attempts: Mapping[str, int], number: int, now: float, emit: Emit
    ) -> Self:
        """Refuse calls that wait, cancel those that run, then retire their ledgers."""
        del now
        after = self._woken(attempts, emit)
        covered = tuple(self._covered(attempts))
        for request in covered:
            if not self.tickets[request].is_cancelled:
                emit(CancelCall(request))
                after = after.changed(request, is_cancelled=True, is_held=False)
        if covered or dict(attempts) in self.fencing.values():
            return after
        episodes = [
            EpisodeId(rollout, attempt) for rollout, attempt in attempts.items()
        ]
        keys = _up_to(episodes)
        emit(RetireLedger(number, keys))
        return attrs.evolve(
            after,
            restored=without(after.restored, *keys),
            restored_cuts=without(after.restored_cuts, *keys),
            fencing={**after.fencing, number: dict(attempts)},
        )

    def _woken(self, attempts: Mapping[str, int], emit: Emit) -> Self:
        late = [
            request
            for request, event in self.waiting.items()
            if event.episode is not None and is_among(event.episode, attempts)
        ]
        for request in late:
            refuse_stale(request, emit)
        if not late:
            return self
        return attrs.evolve(self, waiting=without(self.waiting, *late))

    def _covered(self, attempts: Mapping[str, int]) -> Iterator[int]:
        return (
            request
            for request, ticket in self.tickets.items()
            if ticket.episode is not None and is_among(ticket.episode, attempts)
        )

    def freed(self, removal: int) -> Self:
        """Take the end of a retirement of ledgers."""
        attempts = self.fencing.get(removal)
        if attempts is None:
            return self
        raised = {r: max(a, self.fenced.get(r, -1)) for r, a in attempts.items()}
        return attrs.evolve(
            self,
            fenced={**self.fenced, **raised},
            fencing=without(self.fencing, removal),
        )

    def forgotten(self, rollouts: frozenset[str]) -> Self:
        """Drop the marks of these rollouts."""
        return attrs.evolve(
            self,
            retired=self.retired.forgotten(rollouts),
            fenced=without(self.fenced, *rollouts),
        )


def _up_to(episodes: Sequence[EpisodeId]) -> tuple[str, ...]:
    return tuple(
        EpisodeId(episode.rollout_id, attempt).capture_key
        for episode in episodes
        for attempt in range(episode.attempt + 1)
    )
