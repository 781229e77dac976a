"""The garbage collector in a server: worlds have no cycles, so it rarely need see them.

A full collection visits every container of every live world and answers nothing
meanwhile: some 100 ms with 1,000 worlds of 50 kB.
"""

from __future__ import annotations

import gc

from bisect import bisect_left
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final


if TYPE_CHECKING:
    from collections.abc import Generator

_THRESHOLDS: Final = (10_000, 5, 1_000)
"""Young objects are collected as usual, old ones after 50 million allocations."""


def spare_the_old() -> None:
    """Collect in full only rarely, and never what exists now."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


@contextmanager
def paused() -> Generator[None]:
    """Collect nothing, and never visit what was made meanwhile.

    For the moment in which very many worlds are built at once.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class Pauses:
    """How long collections took, by generation, in buckets as Prometheus has them.

    Plain numbers: a collection can begin anywhere, also while a lock is held.
    """

    BOUNDS: Final = (0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)

    def __init__(self) -> None:
        generations = len(gc.get_count())
        self.counts: list[list[int]] = [
            [0] * (len(self.BOUNDS) + 1) for _ in range(generations)
        ]
        self.seconds: list[float] = [0.0] * generations
        self._began = 0.0

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._began = perf_counter()
            return
        seconds, generation = perf_counter() - self._began, info["generation"]
        self.counts[generation][bisect_left(self.BOUNDS, seconds)] += 1
        self.seconds[generation] += seconds

    @contextmanager
    def watched(self) -> Generator[None]:
        """Be told of every collection of this process."""
        gc.callbacks.append(self)
        try:
            yield
        finally:
            gc.callbacks.remove(self)
