"""Work on large requests, done beside the event loop so that others are answered.

It goes through one thread for each kind: more would only compete for the interpreter,
and the loop's own pool stays free for the files of checkpoints.
"""

from __future__ import annotations

import asyncio

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar


if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

LARGE_SEED: Final = 2 * 2**20
LARGE_METRICS: Final = 2**18
LARGE_TRACE: Final = 2**19
LARGE_EFFECTS: Final = 2**15
"""Bytes of a body from which on a request is served in the thread."""


class Aside:
    """Does pure work of large requests in a thread."""

    def __init__(self) -> None:
        """Start no thread yet."""
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ipistate-aside")

    async def run(self, work: Callable[[], T], size: int, large: int) -> T:
        """Do work at once, or in the thread if it is for a large body.

        Args:
            work: What is to be done; it must not touch what the loop changes.
            size: Bytes of the body.
            large: Bytes from which on the thread does it.
        """
        if size < large:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)
