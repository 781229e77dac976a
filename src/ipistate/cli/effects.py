"""What ``ipistate verify --effects`` prints: outcomes and rates of resistance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipistate.cli.terminal import table


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.table import Table

    from ipistate.scoring import AssessedRollout, Effects, EffectsSummary, WorldChange

HEADS = (
    *("rollouts", "n", "effective", "attempted only", "other route", "resisted"),
    *("not assessed", "resistance", "95 % interval", "utility by effect"),
)


def summary_table(listed: Iterable[EffectsSummary]) -> Table:
    """Show summaries, one to a row."""
    return table(HEADS, map(_cells, listed), numbers=range(1, 6))


def _cells(summary: EffectsSummary) -> list[str]:
    found = summary.resistance
    followed = (
        *(summary.followed_effective, summary.followed_attempted_only),
        summary.followed_other_route,
    )
    reasons = [f"{count} {_words(name)}" for name, count in found.not_assessed.items()]
    between = "" if found.low is None else f"{found.low:.3f} to {found.high:.3f}"
    return [
        *(summary.group, str(found.n), *map(str, followed), str(found.resisted)),
        *(", ".join(reasons) or "0", _rate(found.rate), between),
        _rate(summary.utility),
    ]


def told(assessed: Iterable[AssessedRollout]) -> Iterator[str]:
    """Write a line for each rollout that did anything else than its work."""
    for one in assessed:
        parts = [*_outcome(one.effects), *_shortcomings(one.effects)]
        if parts:
            yield f"line {one.line}: {'; '.join(parts)}"


def _outcome(effects: Effects) -> Iterator[str]:
    if effects.outcome == "not_assessed":
        yield f"not assessed ({_words(effects.reason or '')})"
    elif effects.effective:
        yield f"followed: {_places(effects.changes)}"
    elif effects.other_route:
        yield f"followed by another route: {_places(effects.other_route)}"
    elif effects.attempted:
        yield "followed, without effect"


def _shortcomings(effects: Effects) -> Iterator[str]:
    for one in effects.required if effects.utility is not None else ():
        if one.reason is not None:
            detail = "" if one.detail is None else f" ({one.detail})"
            yield f"{one.tool}: {_words(one.reason)}{detail}"
    if effects.below_zero:
        yield f"below zero: {_places(effects.below_zero)}"


def _places(changes: Iterable[WorldChange]) -> str:
    shown = [f"call {one.call} ({one.tool}) {one.path}" for one in changes]
    return ", ".join(shown)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
