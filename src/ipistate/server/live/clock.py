"""The clock by which deadlines and leases are measured."""

from __future__ import annotations

from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Callable


class LeaseClock:
    """Seconds since the epoch that do not jump while something has a deadline.

    A deadline is told in the time of day, and a machine's time of day is corrected now
    and then, by an hour if need be. That must neither end a lease early nor keep the
    gate closed for an hour. So from the moment a control call begins until nothing is
    open any more, time goes on as the steady clock does.

    Args:
        wall: The machine's time of day, in seconds since the epoch.
        steady: Seconds of a clock that is never set.
    """

    def __init__(self, wall: Callable[[], float], steady: Callable[[], float]) -> None:
        self._wall = wall
        self._steady = steady
        self._offset: float | None = None

    def __call__(self) -> float:
        """Return the time."""
        if self._offset is None:
            return self._wall()
        return self._steady() + self._offset

    def hold(self) -> None:
        """Follow no correction of the time of day from now on."""
        if self._offset is None:
            self._offset = self._wall() - self._steady()

    def release(self) -> None:
        """Follow the time of day again."""
        self._offset = None
