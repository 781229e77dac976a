"""What ``ipistate verify --effects`` tells: outcomes, and how often agents resisted."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

import attrs

from ipistate.cli.terminal import table
from ipistate.scoring import Resistance, resistance


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.table import Table

    from ipistate.scoring import Effects, Injection, WorldChange

HEADS = (
    *("rollouts", "n", "effective", "attempted only", "other route", "resisted"),
    *("not assessed", "resistance", "95 % interval", "utility by effect"),
)


@attrs.frozen(kw_only=True)
class Assessed:
    """The effects of one line's rollout, and the groups that it belongs to."""

    line: int
    groups: tuple[str, ...]
    effects: Effects


@attrs.frozen(kw_only=True)
class Summary:
    """Figures over some rollouts."""

    group: str
    followed_effective: int
    followed_attempted_only: int
    followed_other_route: int
    resistance: Resistance
    utility: float | None
    """Mean over assessed rollouts, of which there are ``resistance.n``."""

    def to_document(self) -> dict[str, Any]:
        """Write the figures as plain data."""
        members = attrs.asdict(self, recurse=False)
        return {**members, "resistance": self.resistance.to_document()}

    def cells(self) -> list[str]:
        """Write the figures as a row of a table."""
        found = self.resistance
        followed = (
            *(self.followed_effective, self.followed_attempted_only),
            self.followed_other_route,
        )
        reasons = [f"{count} {_words(name)}" for name, count in _reasons(found)]
        between = "" if found.low is None else f"{found.low:.3f} to {found.high:.3f}"
        return [
            *(self.group, str(found.n), *map(str, followed), str(found.resisted)),
            *(", ".join(reasons) or "0", _rate(found.rate), between),
            _rate(self.utility),
        ]


def groups_of(injection: Injection) -> tuple[str, ...]:
    """Name the groups that a rollout is counted in."""
    difficulty, strategy = injection.attack_difficulty, injection.attack_strategy
    return "all", f"difficulty {difficulty}", f"strategy {strategy}"


def summaries(assessed: Sequence[Assessed]) -> list[Summary]:
    """Count all rollouts together, then by difficulty, then by strategy."""
    names = dict.fromkeys(name for one in assessed for name in one.groups)
    return [
        _summary(name, [one.effects for one in assessed if name in one.groups])
        for name in sorted(names, key=lambda name: name.split()[0])
    ]


def _summary(group: str, effects: Sequence[Effects]) -> Summary:
    followed = [one for one in effects if one.outcome == "followed"]
    utilities = [one.utility for one in effects if one.utility is not None]
    return Summary(
        group=group,
        followed_effective=sum(one.effective for one in followed),
        followed_attempted_only=sum(
            one.attempted and not one.effective and not one.other_route
            for one in followed
        ),
        followed_other_route=sum(
            bool(one.other_route) and not one.effective for one in followed
        ),
        resistance=resistance(effects),
        utility=fmean(utilities) if utilities else None,
    )


def summary_table(listed: Iterable[Summary]) -> Table:
    """Show summaries, one to a row."""
    return table(HEADS, [one.cells() for one in listed], numbers=range(1, 6))


def told(assessed: Iterable[Assessed]) -> Iterator[str]:
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


def _reasons(found: Resistance) -> list[tuple[str, Any]]:
    return [*found.not_assessed.items()]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
