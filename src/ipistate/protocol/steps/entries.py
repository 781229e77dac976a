"""The entries of live episodes, each in its state."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

import attrs

from ipistate.protocol.live_entries import LiveEntries


class StepState(StrEnum):
    """Where a live episode stands (docs/explanation/protocol.md)."""

    RUNNING = "running"
    WAIT_STEP = "wait_step"
    REPLAY_STEP = "replay_step"
    PARKED = "parked"


_CAPTURED: Final = frozenset({StepState.PARKED, StepState.REPLAY_STEP})
"""In these states the recorded boundary says how the episode can be continued."""


@attrs.frozen(kw_only=True)
class EpisodeEntry:
    """One live episode."""

    state: StepState = StepState.RUNNING
    has_step_ended: bool = False
    """In ``replay_step``: it ended while a checkpoint was open; a boundary follows."""
    boundary: object = None
    """The latest one, None to start over."""
    is_restart: bool = False
    becomes_restart: bool = False
    """When admission opens; until then its task waits."""
    is_retired: bool = False
    is_finishing: bool = False
    due: float | None = None
    """When its time is up, while it runs."""
    left: float | None = None
    """Seconds that are left, while its time does not run."""

    @property
    def blocks(self) -> bool:
        """A checkpoint waits for this episode."""
        if self.is_retired:
            return True
        return not self.is_restart and self.state not in _CAPTURED

    @property
    def is_exported(self) -> bool:
        """A checkpoint records this episode's boundary."""
        excluded = self.is_retired or self.is_restart
        return not excluded and self.state in _CAPTURED

    @property
    def is_reported_restart(self) -> bool:
        """A checkpoint names this episode instead of recording it."""
        return self.is_restart and not self.is_retired


LiveEpisodes: TypeAlias = LiveEntries[EpisodeEntry]
"""By capture key or session key."""
