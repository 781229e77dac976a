"""What a soak knows beside its servers: the sessions, what was done, what differed."""

from __future__ import annotations

import sys

from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import attrs

from shadow import Cut, Shadow, ShadowSession
from usage import Usage

from ipistate.protocol.episode import EpisodeId


if TYPE_CHECKING:
    from traffic import Part


_MOST_TOLD: Final = 50


@attrs.frozen
class Kept:
    """The newest checkpoint that is complete."""

    directory: Path
    cut: Cut
    is_settled: bool = False


@attrs.define(kw_only=True)
class SoakState:
    """Outlives the servers.

    Args:
        parts: What is sent.
        sessions: How many there are at a time.
        rounds: Checkpoints of each server; the last may kill it.
        calls: Requests from one checkpoint to the next.
        random: Decides everything but the order of replies.
        kills: Decides what servers die of, whatever the order of replies.
    """

    parts: tuple[Part, ...]
    sessions: int
    rounds: int
    calls: int
    random: Random
    kills: Random
    usage: Usage = attrs.field(factory=Usage, init=False)
    tally: Counter[str] = attrs.field(factory=Counter, init=False)
    differences: list[str] = attrs.field(factory=list, init=False)
    """The first of them; the tally has their number."""
    shadow: Shadow = attrs.field(factory=Shadow, init=False)
    kept: Kept | None = attrs.field(default=None, init=False)
    usual: dict[str, float] = attrs.field(factory=dict, init=False)
    """Seconds of each operation the last time that it was left alone."""

    def differ(self, where: str, text: str) -> None:
        """Note a difference; all are counted by where they are, and some are told."""
        self.tally["differences"] += 1
        self.tally[f"differences in {where}"] += 1
        if len(self.differences) < _MOST_TOLD:
            self.differences.append(text)
            sys.stderr.write(f"DIFFERENCE: {text}\n")

    def new_session(self) -> ShadowSession:
        """Name the next rollout."""
        self.tally["episodes"] += 1
        episode = EpisodeId(f"soak-{self.tally['episodes']}")
        return ShadowSession(episode=episode, part=self.random.choice(self.parts))
