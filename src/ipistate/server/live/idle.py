"""When sessions were used last, to find those that nobody needs any more."""

from __future__ import annotations

import time

from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Uses:
    """Knows the sessions in the order of their last use.

    Args:
        seconds: How long a session may be unused; by default none is ever idle.
        clock: Seconds of a clock that nobody sets.
    """

    def __init__(
        self, seconds: float = inf, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._since = clock()
        self._used: dict[str, float] = {}

    def note(self, session_ids: Iterable[str]) -> None:
        """Note that sessions are used now."""
        if self._seconds == inf:
            return  # nothing becomes idle, and nearly all requests come here
        now = self._clock()
        for session_id in session_ids:
            self._used.pop(session_id, None)
            self._used[session_id] = now

    def forget(self, session_ids: Iterable[str]) -> None:
        """Forget sessions that are over."""
        for session_id in session_ids:
            self._used.pop(session_id, None)

    def restart(self) -> None:
        """Count from now on, because nobody could use a session until now."""
        self._since = self._clock()

    def idle(self) -> tuple[str, ...]:
        """Name the sessions that were unused for too long."""
        latest = self._clock() - self._seconds
        if self._since > latest:
            return ()
        return tuple(takewhile(lambda name: self._used[name] <= latest, self._used))
