"""How work grows with size: the exponent over two decades, in processor time.

Products of sizes hide in the interpreter's own functions (``lower``, ``in``, ``==``),
which no count of steps sees. Time is that of this thread on the processor, the shortest
of several runs, so other processes hardly matter; and what seems to be over the bound
is measured again, because noise goes away and a product does not.

Beyond the processor's caches even a list of objects costs more for each of them, the more
so on a busy machine. Such a list is therefore made in turn with each work, and what its
exponent is over one is taken off that of the work.
"""

from __future__ import annotations

import ctypes
import gc

from collections.abc import Callable
from contextlib import suppress
from math import log, log10
from time import thread_time
from typing import Final, NamedTuple, TypeAlias


BOUND: Final = 1.1
"""The largest exponent over both decades that counts as linear."""
LAST_BOUND: Final = 1.25
"""The same over the last decade, whose figure is less exact."""

_DECADES: Final = ((1, 9), (10, 5), (100, 2))
"""Factors of the smallest size, and how often a work of that size is done."""
_ATTEMPTS: Final = 12
_SHORTEST: Final = 20e-6
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_LISTED: Final = 300
"""Objects of the shortest list."""

Prepare: TypeAlias = Callable[[int], Callable[[], object]]
"""Makes what a work of some size needs; returns the work, to be done once."""


def keep_memory() -> None:
    """Let the process keep freed memory, where the C library can be told so.

    Otherwise large works give pages back and get them again, each time anew, which small
    ones never do: a step in the cost that is the system's.
    """
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_TRIM_THRESHOLD, 2**30)
        library.mallopt(_MMAP_THRESHOLD, 2**30)


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
    keep_memory()
    times = lists = [float("inf")] * len(_DECADES)
    found = Exponents(0.0, 0.0)
    for _ in range(attempts):
        times = _shorter(times, prepare, smallest)
        lists = _shorter(lists, _listing, _LISTED)
        work, plain = _slopes(*times), _slopes(*lists)
        found = Exponents(
            work.whole - max(0.0, plain.whole - 1), work.last - max(0.0, plain.last - 1)
        )
        if found.is_linear:
            break
    return found


def _shorter(times: list[float], prepare: Prepare, smallest: int) -> list[float]:
    again = (seconds(prepare, smallest * size, runs) for size, runs in _DECADES)
    return [*map(min, times, again)]


def _slopes(first: float, second: float, third: float) -> Exponents:
    return Exponents(log(third / first, 100), log10(third / second))


def _listing(size: int) -> Callable[[], object]:
    return lambda: [{"number": str(n)} for n in range(size)]
