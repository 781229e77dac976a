"""How much work a score may take: what cannot be linear ends here, at the same step always.

Work is counted and not timed, so a rollout is scored or given up alike on every machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ipistate.errors import IpiStateError
from ipistate.kernel import JsonArray, JsonObject, JsonValue, encode


if TYPE_CHECKING:
    from collections.abc import Iterable

    from ipistate.kernel import Change
    from ipistate.tools import Tool

MAX_WORK: Final = 512 * 2**20
"""Units that the effects of one rollout may take; one is one to three nanoseconds."""

_ELEMENT: Final = 20
"""Units for each record of a collection, besides one for each byte of its JSON."""
_CALL: Final = 5_000


class TooMuchWorkError(IpiStateError):
    """A score that would take more work than it may."""


class Budget:
    """Units of work that are left.

    Args:
        units: How many there are in the beginning.
    """

    def __init__(self, units: int = MAX_WORK) -> None:
        self._left = units

    def spend(self, units: int) -> None:
        """Take some units.

        Raises:
            TooMuchWorkError: ``too_much_work``: there are not so many left.
        """
        self._left -= units
        if self._left < 0:
            message = "to execute this trace takes too much work"
            raise TooMuchWorkError("too_much_work", message)


class Meter:
    """Counts what calls cost: each looks at its arguments and at its collections.

    Args:
        world: The world before any call.
        units: How much may be spent.
    """

    def __init__(self, world: JsonObject, units: int = MAX_WORK) -> None:
        self.budget: Budget = Budget(units)
        self._world = world
        self._sizes: dict[str, int] = {}

    def call(self, tool: Tool | None, size: int, times: int = 1) -> None:
        """Spend what a call takes, before it is made.

        Args:
            tool: None if there is no such tool.
            size: Characters of the arguments.
            times: How often the call is made.

        Raises:
            TooMuchWorkError: ``too_much_work``.
        """
        names = () if tool is None else dict.fromkeys((*tool.reads, *tool.writes))
        self.budget.spend(times * (_CALL + size + sum(map(self._size_of, names))))

    def change(self, changes: Iterable[Change]) -> None:
        """Spend what a call has made, which later calls look at, too.

        Raises:
            TooMuchWorkError: ``too_much_work``.
        """
        for one in changes:
            size = _size(one.value)
            self.budget.spend(size)
            if one.path:
                name = str(one.path[0])
                self._sizes[name] = self._size_of(name) + size

    def _size_of(self, name: str) -> int:
        if name not in self._sizes:
            self._sizes[name] = _size(self._world.get(name))
        return self._sizes[name]


def _size(value: JsonValue) -> int:
    elements = len(value) if isinstance(value, JsonObject | JsonArray) else 0
    return len(encode(value)) + _ELEMENT * elements
