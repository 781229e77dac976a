"""How much a run may spend: tokens, time and money; which of it is spent."""

from __future__ import annotations

import math

from typing import TYPE_CHECKING, Any

import attrs

from ipistate.kernel import is_object


if TYPE_CHECKING:
    from collections.abc import Mapping


@attrs.frozen(kw_only=True)
class Spent:
    """What rollouts have cost so far, by what their responses say."""

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def tokens(self) -> int:
        """All tokens."""
        return self.input_tokens + self.output_tokens

    def with_response(self, response: object) -> Spent:
        """Add what a response has cost; one that does not say it has cost nothing."""
        usage: Mapping[str, Any] = {}
        if is_object(response) and is_object(response.get("usage")):
            usage = response["usage"]
        read, written = _count(usage, "input_tokens"), _count(usage, "output_tokens")
        # What only the total knows is taken for the dearer kind.
        rest = max(0, _count(usage, "total_tokens") - read - written)
        return Spent(
            input_tokens=self.input_tokens + read,
            output_tokens=self.output_tokens + written + rest,
        )


def _count(usage: Mapping[str, Any], name: str) -> int:
    count = usage.get(name)
    return count if type(count) is int and count > 0 else 0


@attrs.frozen(kw_only=True)
class Prices:
    """What a million tokens cost, in any one currency."""

    input: float = 0.0
    output: float = 0.0

    def of(self, spent: Spent) -> float:
        """Return the cost of these tokens."""
        millions = spent.input_tokens * self.input + spent.output_tokens * self.output
        return millions / 1e6


@attrs.frozen(kw_only=True)
class RunBudget:
    """Where a run stops to begin rollouts; what has begun goes on to its end.

    Tokens and cost are those of all rows and failures of the run, earlier ones too;
    seconds are those since it was started or resumed.
    """

    tokens: float = math.inf
    seconds: float = math.inf
    cost: float = math.inf
    prices: Prices = attrs.Factory(Prices)

    def reached(self, spent: Spent, seconds: float) -> str | None:
        """Say which budget is spent, None if there is something left of each."""
        cost = self.prices.of(spent)
        if spent.tokens >= self.tokens:
            return f"the budget of {self.tokens:,} tokens is spent ({spent.tokens:,})"
        if seconds >= self.seconds:
            return f"the time budget of {self.seconds:g} s is spent"
        if cost >= self.cost:
            return f"the budget of {self.cost:g} is spent ({cost:.4g})"
        return None
