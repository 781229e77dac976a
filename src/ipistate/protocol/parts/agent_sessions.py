"""An agent's sessions, and what happens to one of them.

A session is idle, or an activation runs in it. An activation that is at a boundary can
be captured, also while its call to the model is out: the call is then made again.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import attrs

from ipistate.kernel import EMPTY_OBJECT, JsonObject
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.live_entries import LiveEntries


class SessionState(StrEnum):
    """Where a session stands (docs/reference/control-plane.md, section 6)."""

    IDLE = "idle"
    RUNNING = "running"
    AT_BOUNDARY = "at_boundary"


@attrs.frozen(kw_only=True)
class AgentSession:
    """One session of an agent."""

    episode: EpisodeId
    state: SessionState = SessionState.IDLE
    own: JsonObject = EMPTY_OBJECT
    """What the agent keeps of it; of a ``/run`` nothing."""
    boundary: JsonObject | None = None
    """The turn loop's state at the activation's last boundary, None before the first."""
    continuation: JsonObject | None = None
    """The restored boundary, for the first activation."""
    run: object = None
    """The restored boundary of its ``/run``, for the replacement."""
    is_pending: bool = False
    """It was restored, and nothing has used it yet."""
    waits: bool = False
    """Its activation does not go on before the resume."""
    is_restart: bool = False
    is_retired: bool = False
    is_ending: bool = False
    """It is gone when its activation has ended."""
    closers: tuple[int, ...] = ()
    """The requests that are answered then."""

    @property
    def is_active(self) -> bool:
        """An activation runs in it."""
        return self.state is not SessionState.IDLE

    @property
    def blocks(self) -> bool:
        """A checkpoint waits for it."""
        if self.is_retired or self.is_ending:
            return True
        return self.state is SessionState.RUNNING and not self.is_restart

    @property
    def loop(self) -> JsonObject | None:
        """The turn loop's state that a checkpoint records."""
        return self.boundary if self.is_active else self.continuation

    def started(self, *, is_restart: bool) -> AgentSession:
        """Let an activation begin, from the continuation if there is one."""
        return attrs.evolve(
            self,
            state=SessionState.RUNNING,
            continuation=None,
            is_pending=False,
            is_restart=is_restart,
        )

    def reached(self, boundary: JsonObject, *, is_open: bool) -> AgentSession:
        """Record a boundary; while a checkpoint is open the activation waits there."""
        after = attrs.evolve(self, boundary=boundary)
        return after.running() if is_open or self.is_restart else after.waiting()

    def asked(self) -> AgentSession:
        """Let the model be called: until its reply, the session is at the boundary."""
        return attrs.evolve(self, state=SessionState.AT_BOUNDARY)

    def replied(self, *, is_open: bool) -> AgentSession:
        """Take the model's reply; while a checkpoint is open it is held."""
        return self.running() if is_open or self.is_restart else self.waiting()

    def running(self) -> AgentSession:
        """Let the activation go on."""
        return attrs.evolve(self, state=SessionState.RUNNING, waits=False)

    def waiting(self) -> AgentSession:
        """Keep the activation at its last boundary."""
        return attrs.evolve(self, state=SessionState.AT_BOUNDARY, waits=True)

    def ended(self, own: JsonObject | None) -> AgentSession:
        """Take the end of the activation, and what the agent keeps; None for no change."""
        return attrs.evolve(
            self,
            state=SessionState.IDLE,
            boundary=None,
            waits=False,
            own=self.own if own is None else own,
        )


AgentSessionMap: TypeAlias = LiveEntries[AgentSession]
"""By session key: ``run:`` and the rollout id, or the id of a native session."""


def run_key(episode: EpisodeId) -> str:
    """Name the session of a ``/run``; all attempts of a rollout have the same."""
    return f"run:{episode.rollout_id}"
