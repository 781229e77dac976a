"""Calls of a policy model whose generations may be cut for a checkpoint.

Once when admission closes, the worker is asked to stage what undelivered calls have; a
prepare waits for that. See docs/reference/control-plane.md, section 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import attrs

from ipistate.capture import ActiveCall, CutContinuation, GenerationCutRecord
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.parts.live_calls import CallTicket, LiveCalls
from ipistate.protocol.parts.model_events import CallCaptured, CutCalls, CutsEnded
from ipistate.protocol.parts.part import Emit


@attrs.frozen(kw_only=True)
class CuttableCalls(LiveCalls):
    """Calls, the round of cuts that is under way, and what it has come to."""

    def begin_cuts(self, until: float, emit: Emit) -> Self:
        """Have undelivered calls of episodes cut, if there are some that may be."""
        calls = {
            request: _active(request, ticket, ticket.episode)
            for request, ticket in self.tickets.items()
            if is_cuttable(ticket) and ticket.episode is not None
        }
        if not calls:
            return self
        emit(CutCalls(self.rounds + 1, calls, until))
        return attrs.evolve(self, cutting=self.rounds + 1, rounds=self.rounds + 1)

    def cut_counts(self) -> Mapping[str, int]:
        """Count undelivered calls that are cut, that are not, and that may not be."""
        waiting = [one for one in self.tickets.values() if is_undelivered(one)]
        cuttable = [one for one in waiting if is_cuttable(one)]
        done = sum(one.cut is not None for one in cuttable)
        is_over = not self.is_open and self.cutting is None
        return {
            "cut": done,
            "cut_failed": len(cuttable) - done if is_over else 0,
            "cut_skipped": len(waiting) - len(cuttable),
        }

    def captured(self, event: CallCaptured) -> Self:
        """Take what a call is captured as."""
        return self.changed(
            event.request,
            model_call_id=event.model_call_id,
            request_digest=event.request_digest,
            admitted_at=event.admitted_at,
            claims_cut=event.claims_cut,
        )

    def end_cuts(self, event: CutsEnded) -> Self:
        """Take the end of a round."""
        # After the resume nobody wants them any more.
        if event.round != self.cutting:
            return self
        after = attrs.evolve(self, cutting=None)
        for request, cut in event.cuts.items():
            after = after.changed(request, cut=cut)
        return after

    def cuts_of(self, key: str) -> tuple[GenerationCutRecord, ...]:
        """Return the cut that a record of this capture key has, if there is one."""
        # Of several calls the one that was admitted last is what its agent waits for.
        for _, ticket in sorted(self.tickets.items(), reverse=True):
            if key_of(ticket) != key or not is_undelivered(ticket):
                continue
            if ticket.cut is not None:
                return (_record(ticket, ticket.cut),)
            break
        restored = self.restored_cuts.get(key)
        return () if restored is None else (restored,)


def key_of(ticket: CallTicket) -> str:
    """Return the capture key of a call, "" if it belongs to no episode."""
    return "" if ticket.episode is None else ticket.episode.capture_key


def is_undelivered(ticket: CallTicket) -> bool:
    """Tell whether a call is captured, and nobody has its reply."""
    return ticket.model_call_id is not None and not ticket.is_started


def is_cuttable(ticket: CallTicket) -> bool:
    """Tell whether a call may be cut: nobody has its reply, and its request has a name."""
    return is_undelivered(ticket) and ticket.request_digest is not None


def _active(request: int, ticket: CallTicket, episode: EpisodeId) -> ActiveCall:
    return ActiveCall(
        ticket_id=f"{request:032x}",
        rollout_id=episode.rollout_id,
        attempt=episode.attempt,
        model_call_id=str(ticket.model_call_id),
        admitted_at=ticket.admitted_at,
    )


def _record(ticket: CallTicket, cut: CutContinuation) -> GenerationCutRecord:
    return GenerationCutRecord(
        model_call_id=str(ticket.model_call_id),
        request_digest=str(ticket.request_digest),
        continuation=cut,
    )
