"""How many rollouts the system lets a run play at a time: each needs open files.

A connection is an open file, at this end and in the server that the run starts, which
inherits the limit. One that is too low is otherwise met in the middle of a run, by
whatever opens the next file.
"""

from __future__ import annotations

import resource

from contextlib import suppress
from typing import Final

import attrs


RESERVED: Final = 64
"""Open files of a process beside the connections of rollouts: its modules' and streams,
rows, logs, a checkpoint."""


@attrs.frozen
class OpenFiles:
    """The limit of open files of this process, and what it allows."""

    limit: int

    @classmethod
    def wanted(cls, concurrency: int, endpoint: int) -> OpenFiles:
        """Read the limit, raised to what so many rollouts need if the system lets us.

        Args:
            concurrency: Rollouts at a time.
            endpoint: Most requests to a model at a time; 0 if none is asked.
        """
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        need = needed(concurrency, endpoint)
        if _is_below(soft, need):
            raised = need if hard == resource.RLIM_INFINITY else min(need, hard)
            with suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
                soft = raised
        return cls(need if soft == resource.RLIM_INFINITY else soft)

    def rollouts(self, concurrency: int, endpoint: int) -> int:
        """Return how many rollouts at a time the limit allows, at most those wanted."""
        left = max(self.limit - RESERVED, 0)
        # Those that wait for the model hold a second connection.
        most = left - endpoint if left >= 2 * endpoint else left // 2
        return min(concurrency, most)


def needed(concurrency: int, endpoint: int) -> int:
    """Return how many open files so many rollouts need."""
    return RESERVED + concurrency + min(concurrency, endpoint)


def _is_below(limit: int, need: int) -> bool:
    return limit != resource.RLIM_INFINITY and limit < need
