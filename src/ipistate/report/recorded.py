"""What rollouts say of how they were made, and what they took: settings, turns, tokens.

Nothing is guessed: what a row does not record is not counted, and each sum has its n.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs

from ipistate.kernel import EMPTY_OBJECT, JsonObject, JsonValue, is_object, render
from ipistate.scoring import items_of


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ipistate.report.rollout import StoredRollout

SETTINGS: Final = (
    *("model", "temperature", "top_p", "max_output_tokens", "reasoning", "seed"),
)
"""Members of a response that say how it was asked for."""

MOST_VALUES: Final = 100
"""Different values of a setting that are told apart; the rest is one more."""
OTHERS: Final = "others"

_LONGEST: Final = 120
_MOST_TOKENS: Final = 2**53
_TOKENS: Final[Mapping[str, tuple[str, str]]] = {
    "tokens_in": ("input_tokens", "prompt_tokens"),
    "tokens_out": ("output_tokens", "completion_tokens"),
}
"""What each API calls them."""

# Tuples, because what is looked for in them may be any JSON.
_REPLIES: Final = ("function_call_output", "tool", "function")
_OTHERS: Final = ("user", "system", "developer", *_REPLIES)
"""Roles of those who are not the model."""


def settings_of(row: JsonObject) -> Iterator[tuple[str, str]]:
    """Visit the settings that a row's response names, as text."""
    response = row.get("response")
    found = response if isinstance(response, JsonObject) else row
    for name in SETTINGS:
        value = found.get(name)
        if name == "reasoning" and isinstance(value, JsonObject):
            value = value.get("effort")
        if value is not None and value != "":
            yield name, shown(value)


def amounts_of(row: JsonObject) -> dict[str, int | float]:
    """Return the turns, tokens and cost of a row, as far as it records them."""
    found: dict[str, int | float] = {}
    if turns := turns_of(row):
        found["turns"] = turns
    response = row.get("response")
    usage = response.get("usage") if isinstance(response, JsonObject) else None
    usage = usage if isinstance(usage, JsonObject) else EMPTY_OBJECT
    for name, members in _TOKENS.items():
        for member in members:
            value = usage.get(member)
            if type(value) is int and 0 <= value < _MOST_TOKENS:
                found.setdefault(name, value)
    cost = usage.get("cost")
    if (
        isinstance(cost, int | float)
        and not isinstance(cost, bool)
        and 0 <= cost < _MOST_TOKENS
    ):
        found["cost"] = cost
    return found


def turns_of(row: JsonObject) -> int:
    """Count the stretches of what a model said between what it was given."""
    turns, speaks = 0, False
    for item in items_of(row) or ():
        is_said = not is_object(item) or _is_said(item)
        turns += is_said and not speaks
        speaks = is_said
    return turns


def _is_said(item: Mapping[str, object]) -> bool:
    return item.get("type") not in _REPLIES and item.get("role") not in _OTHERS


def shown(value: JsonValue) -> str:
    """Write a setting as text of bounded length."""
    text = value if isinstance(value, str) else render(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


@attrs.define
class Amount:
    """A sum over the rollouts that record it."""

    total: int | float = 0
    n: int = 0
    most: int | float = 0

    def merge(self, total: float, n: int, most: float) -> None:
        """Count what another has counted, too."""
        self.total += total
        self.n += n
        self.most = max(self.most, most)

    @property
    def mean(self) -> float:
        """The mean of ``n > 0`` rollouts."""
        return self.total / self.n


@attrs.define
class RecordedUse:
    """The settings and amounts of the rollouts that were added."""

    settings: dict[str, Counter[str]] = attrs.field(factory=dict[str, Counter[str]])
    amounts: dict[str, Amount] = attrs.field(factory=dict[str, Amount])

    def add(self, one: StoredRollout) -> None:
        """Count a rollout; one that is masked has taken what it says, and no turns."""
        for name, text in settings_of(one.row):
            self._count(name, text, 1)
        found = amounts_of(one.row)
        if one.masked is None:
            found["calls"] = len(one.calls)
        else:
            found.pop("turns", None)
        for name, value in found.items():
            self._sum(name).merge(value, 1, value)

    def merge(self, other: RecordedUse) -> None:
        """Count what another has counted, too."""
        for name, counts in other.settings.items():
            for text, count in counts.items():
                self._count(name, text, count)
        for name, amount in other.amounts.items():
            self._sum(name).merge(amount.total, amount.n, amount.most)

    def _sum(self, name: str) -> Amount:
        found = self.amounts.get(name)
        if found is None:
            found = self.amounts[name] = Amount()
        return found

    def _count(self, name: str, text: str, count: int) -> None:
        counts = self.settings.setdefault(name, Counter())
        known = text in counts or len(counts) < MOST_VALUES
        counts[text if known else OTHERS] += count

    def to_document(self) -> dict[str, object]:
        """Write settings and amounts as plain data."""
        amounts = {
            name: {"total": one.total, "n": one.n, "most": one.most}
            for name, one in self.amounts.items()
        }
        return {
            "settings": {name: dict(one) for name, one in self.settings.items()},
            "amounts": amounts,
        }
