"""What the steps engine tells the shell to do, in this order."""

from __future__ import annotations

from typing import TypeAlias

import attrs


@attrs.frozen
class Proceed:
    """Let the episode's task go on; the answer to its last event."""

    key: str


@attrs.frozen
class Wake:
    """Wake a parked task; it asks with ``WakeTaken`` whether it may go on."""

    key: str


@attrs.frozen
class Cancel:
    """Cancel the episode's task, also if it waits. Said once in an episode's life."""

    key: str


@attrs.frozen
class Expire:
    """End the episode's step with a failure: its time is up. Said at most once."""

    key: str


@attrs.frozen
class ArmDeadline:
    """Send ``DeadlinePassed`` at this time; replaces the episode's last timer.

    None means that its time does not run.
    """

    key: str
    at: float | None


@attrs.frozen
class RefuseEpisode:
    """Answer an arriving episode with ``refusal(code, detail)``; nothing has changed."""

    key: str
    status: int
    code: str
    detail: str


EpisodeAction: TypeAlias = (
    Proceed | Wake | Cancel | Expire | ArmDeadline | RefuseEpisode
)
