"""What a run may spend, and which rows it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from acting import Told, Watch, saying, words
from hypothesis import given
from hypothesis import strategies as st

from ipistate.agents.policy import Usage
from ipistate.rollouts import Prices, RowChoice, RunBudget
from ipistate.rollouts.budget import Spent
from ipistate.rollouts.lifecycle import RunOutcome
from ipistate.rollouts.runner import Ending


COUNTS = st.integers(0, 10**9)


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_d10_spending_adds_up(a: int, b: int, c: int, d: int) -> None:
    """D10: tokens are those that responses name, in any order."""
    one = {"usage": {"input_tokens": a, "output_tokens": b}}
    two = {"usage": {"input_tokens": c, "output_tokens": d}}
    spent = Spent().with_response(one).with_response(two)

    assert spent == Spent().with_response(two).with_response(one)
    total = {"usage": {"total_tokens": a + b}}
    assert Spent(output_tokens=a + b) == Spent().with_response(total)
    assert a + b + c + d == spent.tokens


@pytest.mark.parametrize(
    "response",
    [None, {}, {"usage": None}, {"usage": []}, {"usage": {"input_tokens": "9"}}]
    + [
        {"usage": {"input_tokens": one, "output_tokens": one}}
        for one in (True, -1, 2.5)
    ],
)
def test_d10_what_does_not_say_its_usage_has_cost_nothing(response: Any) -> None:
    """D10: nothing is guessed."""
    assert Spent() == Spent().with_response(response)


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        (RunBudget(), None),
        (RunBudget(tokens=3_000_001), None),
        (RunBudget(tokens=3_000_000), "the budget of 3,000,000 tokens"),
        (RunBudget(seconds=61.0), None),
        (RunBudget(seconds=60.0), "the time budget of 60 s"),
        (RunBudget(cost=12.1, prices=Prices(input=2.0, output=5.0)), None),
        (
            RunBudget(cost=12.0, prices=Prices(input=2.0, output=5.0)),
            "the budget of 12",
        ),
    ],
)
def test_d10_which_budget_is_spent(budget: RunBudget, told: str | None) -> None:
    """D10: reaching it spends it; a million tokens in cost 2, two millions out 10."""
    spent = Spent(input_tokens=1_000_000, output_tokens=2_000_000)
    found = budget.reached(spent, 60.0)

    assert (told is None) == (found is None)
    assert found is None or found.startswith(str(told))


@given(st.integers(1, 60), st.integers(1, 80), st.integers(0, 99))
def test_d10_samples_are_rows_in_order(total: int, size: int, seed: int) -> None:
    """D10: different ones, as many as there are at most, the same for the same seed."""
    rows = RowChoice(sample=size).rows(total, seed)

    assert rows == RowChoice(sample=size).rows(total, seed)
    assert min(size, total) == len({*rows})
    assert list(rows) == sorted({*rows} & {*range(total)})
    assert tuple(range(min(size, total))) == RowChoice(limit=size).rows(total, seed)


def test_d10_a_token_budget_counts_earlier_rows_and_failures(
    played: Callable[..., tuple[RunOutcome, list[dict[str, Any]], Watch]],
) -> None:
    """D10: what has begun ends; a resume without room begins nothing."""
    policy = Told([saying(words(), usage=Usage(10, 5))])
    budget = RunBudget(tokens=40)
    outcome, rows, watch = played(policy, count=9, concurrency=1, budget=budget)
    assert (Ending.BUDGET_SPENT, 3, 45) == (
        outcome.ending,
        len(rows),
        outcome.tally.tokens,
    )
    assert any("40 tokens is spent" in note for note in watch.notes)
    again, _, _ = played(policy, count=9, concurrency=1, budget=budget, resume=True)

    assert (Ending.BUDGET_SPENT, 3, 6) == (again.ending, again.done, again.unfinished)
