"""Rates with their 95 % intervals, and the difference of two rates."""

from __future__ import annotations

from math import sqrt
from typing import Final

import attrs


_Z95: Final = 1.959963984540054
"""The normal quantile of a two-sided interval of 95 %."""


@attrs.frozen
class Rate:
    """A proportion: so many of ``n``."""

    successes: int = 0
    n: int = 0

    @property
    def value(self) -> float | None:
        """``successes / n``; None for no rollout."""
        return self.successes / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % Wilson score interval; None for no rollout."""
        return wilson(self.successes, self.n) if self.n else None

    def to_document(self) -> dict[str, object]:
        """Write the rate as plain data."""
        low, high = self.interval or (None, None)
        counts = {"successes": self.successes, "n": self.n}
        return {"rate": self.value, "low": low, "high": high, **counts}


def difference(one: Rate, base: Rate) -> tuple[float, float, float] | None:
    """Return the difference of two rates, and its 95 % interval (Newcombe's method 10).

    The rates are taken as independent. None if one of them is of no rollout.
    """
    if one.value is None or base.value is None:
        return None
    (low, high), (base_low, base_high) = (
        wilson(*attrs.astuple(one)),
        wilson(*attrs.astuple(base)),
    )
    value = one.value - base.value
    below = sqrt((one.value - low) ** 2 + (base_high - base.value) ** 2)
    above = sqrt((high - one.value) ** 2 + (base.value - base_low) ** 2)
    return value, value - below, value + above


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Return the 95 % Wilson score interval of a proportion of ``n > 0`` trials."""
    rate, square = successes / n, _Z95**2
    centre = rate + square / (2 * n)
    spread = _Z95 * sqrt(rate * (1 - rate) / n + square / (4 * n**2))
    whole = 1 + square / n
    low, high = (centre - spread) / whole, (centre + spread) / whole
    # At the ends the interval touches them, which the last bit of a float may miss.
    return (0.0 if successes == 0 else low), (1.0 if successes == n else high)
