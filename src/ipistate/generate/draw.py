"""Seeded drawing that gives the same on every Python.

Only ``random.Random.random`` and seeding by text are promised to stay as they are
between versions, so everything is made of these two.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, TypeVar


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

T = TypeVar("T")


class Draw:
    """A source of choices; two of one seed make the same ones."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed).random  # noqa: S311 - tasks are no secrets

    def below(self, end: int) -> int:
        """Draw a whole number from 0 to ``end - 1``."""
        return int(self._random() * end)

    def number(self, low: int, high: int, step: int = 1) -> int:
        """Draw ``low``, ``low + step``, … up to ``high``."""
        return low + step * self.below((high - low) // step + 1)

    def small(self, low: int, high: int) -> int:
        """Draw from ``low`` to ``high``, the smaller the likelier."""
        return low + int(self._random() * self._random() * (high - low + 1))

    def decimal(self, low: int, high: int, unit: int = 10) -> float:
        """Draw a decimal fraction with ``unit`` parts to the whole."""
        return self.number(low * unit, high * unit) / unit

    def chance(self, percent: int) -> bool:
        """Draw whether something is so."""
        return self.below(100) < percent

    def pick(self, options: Sequence[T]) -> T:
        """Draw one of several."""
        return options[self.below(len(options))]

    def shuffled(self, options: Iterable[T]) -> list[T]:
        """Return all of several in drawn order."""
        found = list(options)
        for last in range(len(found) - 1, 0, -1):
            other = self.below(last + 1)
            found[last], found[other] = found[other], found[last]
        return found

    def some(self, options: Iterable[T], amount: int) -> list[T]:
        """Draw a few different ones; all of them if there are no more."""
        found = list(options)
        amount = min(amount, len(found))
        for place in range(amount):
            other = place + self.below(len(found) - place)
            found[place], found[other] = found[other], found[place]
        return found[:amount]

    def prose(self, sentences: Iterable[str], low: int = 1, high: int = 2) -> str:
        """Draw a text of a few of several sentences."""
        return " ".join(self.some(sentences, self.number(low, high)))

    def digits(self, amount: int) -> str:
        """Draw a numeral of so many digits that does not begin with 0."""
        return str(self.number(10 ** (amount - 1), 10**amount - 1))
