"""The data plane of a policy model: calls that wait, run, and are answered.

See docs/reference/control-plane.md, section 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Self

import attrs

from ipistate.capture import CutContinuation, GenerationCutRecord
from ipistate.protocol.actions import STATUS_OF, Admit, Refuse
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.parts.model_events import (
    CallArrived,
    StartResponse,
)
from ipistate.protocol.parts.model_records import ModelRecord
from ipistate.protocol.parts.part import Emit, PlainPart
from ipistate.protocol.parts.retired_attempts import RetiredAttempts


_NONE: Final[Mapping[Any, Any]] = MappingProxyType({})


@attrs.frozen(kw_only=True)
class CallTicket:
    """A call that was admitted."""

    episode: EpisodeId | None
    model_call_id: str | None = None
    request_digest: str | None = None
    """Of what was asked; None for a call that is not cut."""
    admitted_at: float = 0.0
    claims_cut: bool = False
    """It goes on after the restored cut of its attempt."""
    cut: CutContinuation | None = None
    """Where it was cut for the checkpoint that is open."""
    is_held: bool = False
    """Its response is ready, and waits for the resume."""
    is_started: bool = False
    """Its response is on its way, and ends whatever is open."""
    is_cancelled: bool = False


@attrs.frozen(kw_only=True)
class LiveCalls(PlainPart):
    """Calls by their request, and what a restore has left for the next attempts."""

    is_open: bool = True
    has_served: bool = False
    """A call was admitted since the start."""
    tickets: Mapping[int, CallTicket] = _NONE
    waiting: Mapping[int, CallArrived] = _NONE
    """Calls that wait for the resume, in the order of their arrival."""
    started: int = 0
    """How many responses are on their way; nothing else blocks."""
    restored: Mapping[str, ModelRecord] = _NONE
    """By the capture key of the attempt that no call has reached yet."""
    restored_cuts: Mapping[str, GenerationCutRecord] = _NONE
    """By capture key, until a call that has gone on after it is answered."""
    cutting: int | None = None
    """The round of cuts that is under way."""
    rounds: int = 0
    importing: int | None = None
    fenced: Mapping[str, int] = _NONE
    """The highest attempt of each rollout whose ledgers are retired."""
    fencing: Mapping[int, Mapping[str, int]] = _NONE
    """The attempts of each retirement of ledgers that runs."""
    retired: RetiredAttempts = attrs.Factory(RetiredAttempts)

    def arrive(self, event: CallArrived, emit: Emit) -> Self:
        """Admit a call, refuse it, or let it wait for the resume."""
        if event.episode is not None and self.retired.covers(event.episode):
            refuse_stale(event.request, emit)
            return self
        if not self.is_open:
            waiting = {**self.waiting, event.request: event}
            return attrs.evolve(self, waiting=waiting)
        emit(Admit(event.request))
        ticket = CallTicket(episode=event.episode)
        key = "" if event.episode is None else event.episode.capture_key
        return attrs.evolve(
            self,
            has_served=True,
            tickets={**self.tickets, event.request: ticket},
            restored=without(self.restored, key),
        )

    def changed(self, request: int, **members: Any) -> Self:
        """Change what is known of a call."""
        ticket = self.tickets.get(request)
        if ticket is None:
            return self
        changed = attrs.evolve(ticket, **members)
        return attrs.evolve(self, tickets={**self.tickets, request: changed})

    def respond(self, request: int, emit: Emit) -> Self:
        """Let a response start, or hold it."""
        ticket = self.tickets.get(request)
        if ticket is None or ticket.is_cancelled:
            return self
        if not self.is_open:
            return self.changed(request, is_held=True)
        emit(StartResponse(request))
        after = self.changed(request, is_held=False, is_started=True)
        episode = ticket.episode
        if ticket.claims_cut and episode is not None:
            kept = without(after.restored_cuts, episode.capture_key)
            after = attrs.evolve(after, restored_cuts=kept)
        return attrs.evolve(after, started=self.started + 1)

    def ended(self, request: int) -> Self:
        """Forget a call that is over."""
        ticket = self.tickets.get(request)
        return attrs.evolve(
            self,
            tickets=without(self.tickets, request),
            waiting=without(self.waiting, request),
            started=self.started - (ticket is not None and ticket.is_started),
        )


def refuse_stale(request: int, emit: Emit) -> None:
    """Answer a call of a retired attempt."""
    code = "stale_attempt"
    detail = "this attempt has been retired"
    emit(Refuse(request, STATUS_OF[code], code, detail))


def without(mapping: Mapping[Any, Any], *keys: Any) -> Mapping[Any, Any]:
    """Return a mapping without these keys."""
    gone = {*keys}
    return {key: value for key, value in mapping.items() if key not in gone}
