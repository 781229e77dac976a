"""Memory and descriptors of the servers over time, and how far they may grow."""

from __future__ import annotations

import os
import time

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

import attrs


MORE_MEMORY: Final = 1.25
"""Times the memory of the servers before, for as many sessions."""
SLACK: Final = 16 * 2**20
"""Bytes by which two processes that do the same may differ."""
MORE_DESCRIPTORS: Final = 8


@attrs.frozen
class Sample:
    """What a server's process holds at the end of a round of requests."""

    seconds: float
    life: int
    """Which server since the beginning."""
    round: int
    """Which round of that server."""
    sessions: int
    replies: int
    memory: int
    """Resident bytes."""
    descriptors: int


@attrs.define
class Usage:
    """All samples of a soak."""

    samples: list[Sample] = attrs.field(factory=list)
    _began: float = attrs.field(factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """How long the soak has been running."""
        return time.monotonic() - self._began

    def take(
        self, pid: int, life: int, number: int, sessions: int, replies: int
    ) -> None:
        """Look at a process."""
        proc = Path("/proc") / str(pid)
        pages = int((proc / "statm").read_text(encoding="ascii").split()[1])
        memory = pages * os.sysconf("SC_PAGE_SIZE")
        descriptors = sum(1 for _ in (proc / "fd").iterdir())
        taken = Sample(
            self.seconds, life, number, sessions, replies, memory, descriptors
        )
        self.samples.append(taken)

    def memory(self) -> dict[str, Any]:
        """Compare the last third of samples with the third before it.

        Samples of one server are compared, and those of the same round of all servers:
        a process that has just restored holds other memory than one that has served.
        """
        pairs = {
            "between servers": self._courses(lambda one: one.round),
            "within a server": self._courses(lambda one: one.life),
        }
        growth = {
            name: max(now / before for before, now in found)
            for name, found in pairs.items()
            if found
        }
        held = [one.memory for one in self.samples] or [0]
        return {
            "first_mb": round(held[0] / 1e6, 1),
            "last_mb": round(held[-1] / 1e6, 1),
            "most_mb": round(max(held) / 1e6, 1),
            "growth": {name: round(times, 3) for name, times in growth.items()},
            "bound": MORE_MEMORY,
            "ok": all(
                now <= before * MORE_MEMORY + SLACK
                for found in pairs.values()
                for before, now in found
            ),
        }

    def _courses(self, of: Callable[[Sample], int]) -> list[tuple[float, float]]:
        courses: dict[int, list[int]] = {}
        for one in self.samples:
            courses.setdefault(of(one), []).append(one.memory)
        return [_thirds(found) for found in courses.values() if len(found) >= 3]

    def descriptors(self) -> dict[str, Any]:
        """Compare the most descriptors with the fewest: clients are always as many."""
        found = [one.descriptors for one in self.samples] or [0]
        least, most = min(found), max(found)
        ok = most - least <= MORE_DESCRIPTORS
        return {"least": least, "most": most, "bound": MORE_DESCRIPTORS, "ok": ok}


def _thirds(memory: list[int]) -> tuple[float, float]:
    third = len(memory) // 3
    return median(memory[-2 * third : -third]), median(memory[-third:])
