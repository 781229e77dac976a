"""A soak from its first server to its last, and its result."""

from __future__ import annotations

import platform
import sys

from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar

import attrs

from life import Kill, Life
from state import SoakState
from traffic import Part, parts

from ipistate.demo.workplace import Workplace


T = TypeVar("T")
_MOST_SAMPLES: Final = 40
_KILLS: Final[dict[Kill, int]] = {"commit": 9, "restore": 9, "traffic": 2}
"""What servers die of, and how often of twenty times."""


def _option(usual: T, text: str) -> T:
    return attrs.field(default=usual, metadata={"help": text})


@attrs.frozen(kw_only=True)
class SoakOrder:
    """What is asked for; each field is an option of the command."""

    minutes: float = _option(1.0, "how long, if no number of kills is given")
    kills: int = _option(0, "how many servers are killed")
    sessions: int = _option(10_000, "how many there are at a time")
    seed: int = _option(7, "another one gives other requests and other kills")
    rounds: int = _option(0, "checkpoints of each server; 0: as many as usual")
    calls: int = _option(0, "requests between checkpoints; 0: two for each session")

    def begun(self, drawn: tuple[Part, ...]) -> SoakState:
        """Begin without sessions."""
        return SoakState(
            parts=drawn,
            sessions=self.sessions,
            rounds=self.rounds or (2 if self.kills else 4),
            calls=self.calls or 2 * self.sessions,
            random=Random(self.seed),
            kills=Random(f"{self.seed} kills"),
        )

    def is_done(self, state: SoakState) -> bool:
        """Tell whether it was long enough."""
        if self.kills:
            return state.tally["kills"] >= self.kills
        return state.usage.seconds >= self.minutes * 60


async def run(
    order: SoakOrder, root: Path, drawn: tuple[Part, ...] = ()
) -> dict[str, Any]:
    """Run a soak to its end.

    Args:
        order: What is asked for.
        root: Where logs and checkpoints are.
        drawn: What is sent; by default parts of all built-in rows.

    Returns:
        The result as plain data.
    """
    state, place = order.begun(drawn or await parts()), Workplace(root)
    while not order.is_done(state):
        await _live(order, state, place, _kill(state))
    await _live(order, state, place, None)
    return _result(order, state)


def _kill(state: SoakState) -> Kill:
    if state.kept is None:
        return "commit"  # there is nothing to restore, and to go back to
    return state.kills.choices([*_KILLS], [*_KILLS.values()])[0]


async def _live(
    order: SoakOrder, state: SoakState, place: Workplace, kill: Kill | None
) -> None:
    state.tally["servers"] += 1
    async with place.served(f"server-{state.tally['servers']}") as server:
        life = Life(state, server, place.root, kill)
        if await life.restore():
            await life.serve(lambda: order.is_done(state))
        if kill is None:
            await life.end()
    if kill is not None:
        state.tally["kills"] += 1
        state.tally[f"kills in {kill}"] += 1
    _tell(state, "ended" if kill is None else f"killed in {kill}")


def _tell(state: SoakState, what: str) -> None:
    last = state.usage.samples[-1] if state.usage.samples else None
    held = f", {last.memory / 1e6:.0f} MB, {last.descriptors} fds" if last else ""
    sys.stderr.write(
        f"{state.usage.seconds:7.1f} s, server {state.tally['servers']} {what}: "
        f"{state.tally['replies']:,} replies, {len(state.shadow.sessions):,} sessions, "
        f"{state.tally['differences']} differences{held}\n"
    )


def _result(order: SoakOrder, state: SoakState) -> dict[str, Any]:
    memory, descriptors = state.usage.memory(), state.usage.descriptors()
    samples = state.usage.samples
    shown = samples[:: max(1, len(samples) // _MOST_SAMPLES)]
    is_equal = state.tally["differences"] == 0
    return {
        "ok": memory["ok"] and descriptors["ok"] and is_equal,
        "order": attrs.asdict(order),
        "python": platform.python_version(),
        "seconds": round(state.usage.seconds, 1),
        "sessions at the end": len(state.shadow.sessions),
        "counts": dict(sorted(state.tally.items())),
        "differences": state.differences,
        "memory": memory,
        "descriptors": descriptors,
        "samples": [attrs.asdict(one) for one in shown],
    }
