"""The options that bound a run: which rows it takes, and what it may spend."""

from __future__ import annotations

import math
import re

from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from ipistate.cli.options import FiniteRange
from ipistate.rollouts import Prices, RowChoice, RunBudget


if TYPE_CHECKING:
    from collections.abc import Callable


@attrs.frozen
class RunLimits:
    """What was chosen."""

    choice: RowChoice
    budget: RunBudget


def duration(_: object, __: object, text: str | None) -> float | None:
    """Read a time as 30s, 5m or 1h, in seconds.

    Raises:
        BadParameter: It is none, or it is nothing.
    """
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smh]?)", text)
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not seconds:
        raise click.BadParameter(f"{text!r} is no duration; write 30s or 5m")
    return seconds


_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def with_limits(function: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options that bound a run, as one ``RunLimits``."""

    @click.option(
        "--limit",
        metavar="ROWS",
        type=click.IntRange(min=1),
        help="Play only so many rows, the first ones.",
    )
    @click.option(
        "--sample",
        metavar="ROWS",
        type=click.IntRange(min=1),
        help="Play only so many rows, chosen at random by --seed.",
    )
    @click.option(
        "--token-budget",
        metavar="TOKENS",
        type=click.IntRange(min=1),
        help="Begin no rollout once the run's rows and failures have cost so many tokens, "
        "by what the endpoint says.",
    )
    @click.option(
        "--time-budget",
        metavar="TIME",
        callback=duration,
        help="Begin no rollout after this time, as 30s, 5m or 1h.",
    )
    @click.option(
        "--cost-budget",
        metavar="AMOUNT",
        type=FiniteRange(min=0, min_open=True),
        help="Begin no rollout once the tokens have cost so much, at the prices given.",
    )
    @click.option(
        "--price-input",
        metavar="AMOUNT",
        type=FiniteRange(min=0),
        help="What a million input tokens cost.",
    )
    @click.option(
        "--price-output",
        metavar="AMOUNT",
        type=FiniteRange(min=0),
        help="What a million output tokens cost.",
    )
    @wraps(function)
    def called(
        *given: Any,
        limit: int | None,
        sample: int | None,
        token_budget: int | None,
        time_budget: float | None,
        cost_budget: float | None,
        price_input: float | None,
        price_output: float | None,
        **options: Any,
    ) -> None:
        if limit is not None and sample is not None:
            raise click.UsageError("--limit and --sample exclude each other")
        if cost_budget is not None and not (price_input or price_output):
            message = "--cost-budget needs --price-input or --price-output"
            raise click.UsageError(message)
        budget = RunBudget(
            tokens=math.inf if token_budget is None else token_budget,
            seconds=math.inf if time_budget is None else time_budget,
            cost=math.inf if cost_budget is None else cost_budget,
            prices=Prices(input=price_input or 0.0, output=price_output or 0.0),
        )
        limits = RunLimits(RowChoice(limit=limit, sample=sample), budget)
        function(*given, limits=limits, **options)

    return called
