"""One table of all figures: beside each its floor, its budget, and whether it is met."""

from __future__ import annotations

import gc
import os
import platform
import sys

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import attrs


if TYPE_CHECKING:
    from measure import Comparison


@attrs.frozen(kw_only=True)
class Row:
    """One line of the table."""

    work: str
    figure: str
    floor: str
    ratio: float
    budget: float
    at_least: bool = False
    """The ratio is one of rates: more is better."""
    spread: tuple[float, float] | None = None
    """Quartiles of the ratio."""
    note: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the ratio is within the budget, to the precision that is shown."""
        shown = float(f"{self.ratio:.3g}")
        return shown >= self.budget if self.at_least else shown <= self.budget


def row(work: str, floor: str, found: Comparison, budget: float, note: str = "") -> Row:
    """Make the line of two works that were timed in turn."""
    return Row(
        work=work,
        figure=duration(found.ours),
        floor=f"{floor}: {duration(found.floor)}",
        ratio=found.ratio,
        budget=budget,
        spread=(found.low, found.high),
        note=note,
    )


def duration(seconds: float) -> str:
    """Write a duration with three digits and a fitting unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


_HEAD = ("work", "figure", "floor or rival", "ratio", "quartiles", "budget", "")


def _cells(line: Row) -> tuple[str, ...]:
    spread = "" if line.spread is None else f"{line.spread[0]:.3g}-{line.spread[1]:.3g}"
    return (
        line.work,
        line.figure,
        line.floor,
        f"{line.ratio:.3g}",
        spread,
        f"{'≥' if line.at_least else '≤'} {line.budget:g}",
        ("met" if line.is_met else "missed") + (f" ({line.note})" if line.note else ""),
    )


def table(rows: Iterable[Row]) -> str:
    """Write the figures as a Markdown table that is aligned in plain text, too."""
    lines: Sequence[tuple[str, ...]] = [_HEAD, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    written = [
        " | ".join(c.ljust(w) for c, w in zip(x, widths, strict=True)) for x in lines
    ]
    rule = " | ".join("-" * width for width in widths)
    return "\n".join(f"| {line} |" for line in (written[0], rule, *written[1:]))


def machine() -> dict[str, str]:
    """Describe what the figures were measured on, without any names of machines."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        "garbage collector": f"on, thresholds {gc.get_threshold()}",
        "switch interval": f"{sys.getswitchinterval() * 1000:g} ms",
    }


def document(about: dict[str, str], rows: Iterable[Row]) -> dict[str, object]:
    """Return the figures as plain data, for ``--json``."""
    figures = [{**attrs.asdict(one), "met": one.is_met} for one in rows]
    return {"machine": about, "figures": figures}
