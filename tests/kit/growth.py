"""How work grows with size: the exponent over two decades, in processor time.

Products of sizes hide in the interpreter's own functions (``lower``, ``in``, ``==``),
which no count of steps sees. Time is that of this thread on the processor, the shortest
of several runs, so other processes hardly matter; and what seems to be over the bound
is measured again, because noise goes away and a product does not.
"""

from __future__ import annotations

import gc

from collections.abc import Callable
from math import log, log10
from time import thread_time
from typing import Final, NamedTuple, TypeAlias


BOUND: Final = 1.1
"""The largest exponent over both decades that counts as linear."""
LAST_BOUND: Final = 1.25
"""The same over the last decade, where the processor's caches end."""

_DECADES: Final = ((1, 9), (10, 5), (100, 2))
"""Factors of the smallest size, and how often a work of that size is done."""
_ATTEMPTS: Final = 6
_SHORTEST: Final = 20e-6

Prepare: TypeAlias = Callable[[int], Callable[[], object]]
"""Makes what a work of some size needs; returns the work, to be done once."""


def seconds(prepare: Prepare, size: int, runs: int) -> float:
    """Return the processor seconds of the shortest run; each starts afresh."""
    shortest = float("inf")
    for _ in range(runs):
        work = prepare(size)
        gc.disable()
        start = thread_time()
        result = work()
        shortest = min(shortest, thread_time() - start)
        gc.enable()
        del result
    return max(shortest, _SHORTEST)


class Exponents(NamedTuple):
    """How a work grows."""

    whole: float
    """Over both decades."""
    last: float
    """Over the last one, where what does not depend on the size is hardly felt."""

    @property
    def is_linear(self) -> bool:
        """Whether both are within their bounds."""
        return self.whole <= BOUND and self.last <= LAST_BOUND


def exponents(prepare: Prepare, smallest: int, attempts: int = _ATTEMPTS) -> Exponents:
    """Measure how work grows from ``smallest`` to a hundred times that.

    Args:
        prepare: Makes the work.
        smallest: Its smallest size.
        attempts: How often all sizes are measured at most, as long as the shortest
            times are not those of a linear work.
    """
    times = [float("inf")] * len(_DECADES)
    found = Exponents(0.0, 0.0)
    for _ in range(attempts):
        again = [seconds(prepare, smallest * size, n) for size, n in _DECADES]
        first, second, third = times = [*map(min, times, again)]
        found = Exponents(log(third / first, 100), log10(third / second))
        if found.is_linear:
            break
    return found
