"""What a task file holds: how often each label occurs, how large rows are, repetitions."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Self

import attrs

from ipistate.kernel import encode


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ipistate.scoring import Task

LABELS: Final[Mapping[str, Callable[[Task], str]]] = {
    "domain": lambda task: task.domain or "unknown",
    "strategy": lambda task: task.injection.attack_strategy,
    "difficulty": lambda task: task.injection.attack_difficulty,
    "category": lambda task: task.injection.category,
    "vector": lambda task: task.injection.vector,
    "verification_type": lambda task: task.injection.verification_type,
    "target_tool": lambda task: task.injection.target_tool,
}
"""What rows are counted by."""

SIZES: Final[Mapping[str, Callable[[Task], int]]] = {
    "world_bytes": lambda task: len(task.environment.to_json()),
    "injection_characters": lambda task: len(task.injection.injection_text),
    "prompt_bytes": lambda task: len(encode(task.responses_create_params.get("input"))),
    "tools": lambda task: len(task.offered_tools),
    "required_tools": lambda task: len(task.required_tools),
}
"""What is measured of a row."""

_REPEATED: Final[Mapping[str, Callable[[Task], bytes]]] = {
    "rows": lambda task: task.to_json(),
    "prompts": lambda task: encode(task.responses_create_params.get("input")),
    "injection_texts": lambda task: task.injection.injection_text.encode(
        errors="surrogatepass"
    ),
}


@attrs.frozen(kw_only=True)
class Spread:
    """The middle and the ends of some numbers."""

    smallest: int
    median: int
    largest: int

    @classmethod
    def of(cls, numbers: Counter[int]) -> Self:
        """Describe numbers by how often each occurs; there is at least one."""
        values = sorted(numbers)
        below = accumulate(numbers[one] for one in values)
        half = (numbers.total() + 1) // 2
        middle = next(n for n, many in zip(values, below, strict=True) if many >= half)
        return cls(smallest=values[0], median=middle, largest=values[-1])


@attrs.frozen(kw_only=True)
class Statistics:
    """What a task file holds."""

    rows: int
    counts: dict[str, dict[str, int]]
    """By label and value, the most frequent value first."""
    sizes: dict[str, Spread]
    duplicates: dict[str, int]
    """How many rows repeat something of an earlier one."""


class RowTally:
    """Statistics of rows that are seen one by one; it keeps no row."""

    def __init__(self) -> None:
        self._rows = 0
        self._counts = {name: Counter[str]() for name in LABELS}
        self._sizes = {name: Counter[int]() for name in SIZES}
        self._seen: dict[str, set[bytes]] = {name: set() for name in _REPEATED}

    def add(self, task: Task) -> None:
        """Count a row."""
        self._rows += 1
        for name, label in LABELS.items():
            self._counts[name][label(task)] += 1
        for name, measure in SIZES.items():
            self._sizes[name][measure(task)] += 1
        for name, text in _REPEATED.items():
            self._seen[name].add(sha256(text(task)).digest()[:16])

    def statistics(self) -> Statistics:
        """Say what was counted; at least one row was."""
        return Statistics(
            rows=self._rows,
            counts={n: dict(found.most_common()) for n, found in self._counts.items()},
            sizes={name: Spread.of(found) for name, found in self._sizes.items()},
            duplicates={n: self._rows - len(seen) for n, seen in self._seen.items()},
        )
