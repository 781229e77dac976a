"""Ratios that hold on a noisy machine: two works timed in turn, round by round.

Time is that of the thread on the processor, so other processes hardly matter; works
that wait for a disk are timed by the wall clock.
The garbage collector stays on, as in a server; it runs in full before each timing, and
what existed before the benchmark is kept out of its sight (``gc.freeze``).
"""

from __future__ import annotations

import gc

from collections.abc import Callable
from statistics import median, quantiles
from time import perf_counter, thread_time
from typing import Any, TypeAlias

import attrs


Timed: TypeAlias = Callable[[], float]
"""Prepares what it needs, does its work, returns the seconds of the work alone."""


@attrs.frozen
class Comparison:
    """What a work took beside its floor."""

    ours: float
    """Median seconds."""
    floor: float
    ratio: float
    """Median of the rounds' ratios."""
    low: float
    """Lower quartile of the rounds' ratios."""
    high: float
    """Upper quartile."""


def repeated(run: Callable[[], object], number: int) -> Timed:
    """Time the mean of ``number`` runs in the same state."""

    def timed() -> float:
        times = range(number)
        gc.collect()
        start = thread_time()
        for _ in times:
            run()
        return (thread_time() - start) / number

    return timed


def fresh(
    prepare: Callable[[], Any], run: Callable[[Any], object], number: int
) -> Timed:
    """Time the mean of ``number`` runs, each on a state that was never used before.

    What the runs return lives until all have ended, as the worlds of a server do.
    """

    def timed() -> float:
        states = [prepare() for _ in range(number)]
        results: list[object] = []
        keep = results.append
        gc.collect()
        start = thread_time()
        for state in states:
            keep(run(state))
        return (thread_time() - start) / number

    return timed


def waiting(
    run: Callable[[], Any], after: Callable[[Any], object] = lambda _: None
) -> Timed:
    """Time one run by the wall clock; ``after`` cleans up what it returned."""

    def timed() -> float:
        gc.collect()
        start = perf_counter()
        result = run()
        seconds = perf_counter() - start
        after(result)
        return seconds

    return timed


def compare(ours: Timed, floor: Timed, rounds: int = 21) -> Comparison:
    """Time both in turn after one round to warm up; who goes first alternates."""
    gc.collect()
    gc.freeze()
    ours(), floor()
    pairs: list[tuple[float, float]] = []
    for index in range(rounds):
        if index % 2:
            second, first = floor(), ours()
        else:
            first, second = ours(), floor()
        pairs.append((first, second))
    gc.unfreeze()
    ratios = [one / other for one, other in pairs]
    low, _, high = quantiles(ratios, n=4)
    return Comparison(
        median(one for one, _ in pairs),
        median(other for _, other in pairs),
        median(ratios),
        low,
        high,
    )
