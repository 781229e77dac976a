"""Work on large requests, done beside the event loop so that others are answered.

It goes through one thread for each kind: more would only compete for the interpreter,
and the loop's own pool stays free for the files of checkpoints. Metrics have a thread
of their own, so that no session waits for them.
"""

from __future__ import annotations

import asyncio

from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar


if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

LARGE_SEED: Final = 2 * 2**20
LARGE_METRICS: Final = 2**18
LARGE_TRACE: Final = 2**19
LARGE_EFFECTS: Final = 2**15
"""Bytes of a body from which on a request is served in a thread."""


class Aside:
    """Does the work of large requests in threads, and that of small ones at once.

    Work must not touch what the loop changes.

    Args:
        effects: Whether verdicts tell effects, too.
    """

    def __init__(self, *, effects: bool = False) -> None:
        self._large_exchange = LARGE_EFFECTS if effects else LARGE_TRACE
        self._sessions = ThreadPoolExecutor(1, thread_name_prefix="ipistate-sessions")
        self._metrics = ThreadPoolExecutor(1, thread_name_prefix="ipistate-metrics")

    async def seed(self, work: Callable[[], T], body: bytes) -> T:
        """Read a seed."""
        return await _done(self._sessions, work, large=len(body) >= LARGE_SEED)

    async def exchange(self, work: Callable[[], T], body: bytes) -> T:
        """Read or answer a verify request."""
        large = len(body) >= self._large_exchange
        return await _done(self._sessions, work, large=large)

    async def metrics(self, work: Callable[[], T], body: bytes) -> T:
        """Compute the metrics of a request."""
        return await _done(self._metrics, work, large=len(body) >= LARGE_METRICS)


async def _done(pool: Executor, work: Callable[[], T], *, large: bool) -> T:
    if not large:
        return work()
    return await asyncio.get_running_loop().run_in_executor(pool, work)
