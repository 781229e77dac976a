"""Which agent plays which row, and how far it gets before the checkpoint. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ipistate.demo.scripts import AGENTS, Agent, DemoScript
from ipistate.protocol import EpisodeId
from ipistate.rollouts import Place


if TYPE_CHECKING:
    from collections.abc import Iterable

    from ipistate.scoring import Task
    from ipistate.tools import ToolCall


@attrs.frozen(kw_only=True)
class DemoRollout:
    """One agent's way through one task row."""

    episode: EpisodeId
    row: str
    task: Task
    agent: Agent
    calls: tuple[ToolCall, ...]
    cut: int | None
    """Calls made before the checkpoint; None if the rollout ends before it."""
    place: Place
    """The task row among those that are played, and how many rollouts of it are before."""

    @property
    def domain(self) -> str:
        """The row's domain, for tables."""
        return self.task.domain or "unknown"

    @property
    def next_attempt(self) -> DemoRollout:
        """The same rollout as it goes on after a restore, or starts over."""
        return attrs.evolve(self, episode=self.episode.next_attempt)


def unfinished(rollouts: Iterable[DemoRollout]) -> list[DemoRollout]:
    """Return the rollouts that are cut by the checkpoint."""
    return [one for one in rollouts if one.cut is not None]


def plan(scripts: Iterable[DemoScript], count: int) -> tuple[DemoRollout, ...]:
    """Deal ``count`` rollouts: domains in turn, agents in turn, a quarter to finish.

    Raises:
        ValueError: There are no scripts to deal.
    """
    listed = tuple(scripts)
    if not listed:
        raise ValueError("there are no task rows to play")
    dealt, width = in_turn(listed), len(str(count - 1))
    positions = {script.name: position for position, script in enumerate(listed)}

    def rollout(number: int) -> DemoRollout:
        slot, turn = divmod(number, len(AGENTS))
        lap, place = divmod(slot, len(dealt))
        script, agent = dealt[place], AGENTS[turn]
        calls = script.calls(agent)
        finishes = slot % 4 == (3 if agent == "careful" else 1)
        return DemoRollout(
            episode=EpisodeId(f"demo-{number:0{width}}-{agent}"),
            row=script.name,
            task=script.task,
            agent=agent,
            calls=calls,
            cut=None if finishes else _cut(len(calls), slot),
            place=Place(positions[script.name], lap * len(AGENTS) + turn),
        )

    return tuple(map(rollout, range(count)))


def plan_for(scripts: Iterable[DemoScript], sessions: int) -> tuple[DemoRollout, ...]:
    """Deal as many rollouts as it takes for so many to be live at the checkpoint.

    Raises:
        ValueError: There are no scripts to deal.
    """
    dealt = plan(scripts, 2 * sessions)
    live = [number for number, rollout in enumerate(dealt) if rollout.cut is not None]
    return dealt[: live[sessions - 1] + 1]


def in_turn(scripts: Iterable[DemoScript]) -> list[DemoScript]:
    """Order scripts so that domains alternate and each keeps its own order."""
    seen: dict[str | None, int] = {}
    ranked: list[tuple[int, DemoScript]] = []
    for script in scripts:
        turn = seen.get(script.task.domain, 0)
        seen[script.task.domain] = turn + 1
        ranked.append((turn, script))
    return [script for _, script in sorted(ranked, key=lambda pair: pair[0])]


def _cut(calls: int, slot: int) -> int:
    # At least one call before the crash; sometimes all, so that only verify is left.
    return min(calls, 1 + slot % max(calls, 1))
