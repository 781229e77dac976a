"""What is said of a column of numbers: its middle, its spread, and how sure the mean is."""

from __future__ import annotations

from functools import lru_cache
from math import cos, floor, fsum, pi, sin, sqrt, tan
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import attrs


if TYPE_CHECKING:
    from collections.abc import Iterable

_LEVEL: Final = 0.95
_SUMMED: Final = 1_000
"""Up to so many degrees of freedom the distribution is summed, beyond it is expanded."""


@attrs.frozen
class Measurements:
    """Numbers in ascending order, at least one of them, each within 1e300."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, numbers: Iterable[float]) -> Measurements:
        """Sort numbers; there is no minus zero among their statistics."""
        return cls(tuple(sorted(number + 0.0 for number in numbers)))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        """The mean of the exact sum."""
        return fsum(self.values) / len(self.values)

    @property
    def deviation(self) -> float:
        """The standard deviation of a sample, 0 for one number."""
        mean = self.mean
        # Without the scale the squares of large numbers would not be finite.
        scale = max(mean - self.values[0], self.values[-1] - mean)
        if len(self) == 1 or scale <= 0:
            return 0.0
        squares = fsum(((value - mean) / scale) ** 2 for value in self.values)
        return scale * sqrt(squares / (len(self) - 1))

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return self.deviation / sqrt(len(self))

    def quantile(self, part: float) -> float:
        """Return the value below which a part of the numbers lies, interpolated."""
        at = part * (len(self) - 1)
        below = floor(at)
        low, high = self.values[below], self.values[min(below + 1, len(self) - 1)]
        return low + (high - low) * (at - below)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's 95 % interval of the mean; None for one number."""
        if len(self) == 1:
            return None
        spread = student95(len(self) - 1) * self.error
        return self.mean - spread, self.mean + spread


@lru_cache(maxsize=256)
def student95(freedom: int) -> float:
    """Return the two-sided 95 % quantile of Student's distribution, to 12 digits.

    Args:
        freedom: The degrees of freedom, 1 or more.
    """
    if freedom > _SUMMED:
        return _expanded(freedom)
    # In the angle the probability is a smooth, rising, finite sum.
    low, high = 0.0, pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if _within(middle, freedom) < _LEVEL else (low, middle)
        )
    return sqrt(freedom) * tan(low)


def _within(angle: float, freedom: int) -> float:
    # Abramowitz and Stegun, 26.7.3 and 26.7.4, with t = sqrt(freedom) * tan(angle).
    odd, square = freedom % 2, cos(angle) ** 2
    if freedom == 1:
        return 2 * angle / pi
    term = total = cos(angle) if odd else 1.0
    for step in range(2 + odd, freedom - 1, 2):
        term *= square * (step - 1) / step
        total += term
    whole = sin(angle) * total
    return 2 / pi * (angle + whole) if odd else whole


def _expanded(freedom: int) -> float:
    # Abramowitz and Stegun, 26.7.5: the first term left out is below 1e-12 here.
    z = NormalDist().inv_cdf((1 + _LEVEL) / 2)
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z)
        / (92160 * freedom**4)
    )
