"""What the page says of how each run was made and what it took, a row for each thing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from ipistate.kernel import JsonObject
from ipistate.report.recorded import OTHERS, shown


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ipistate.report.recorded import Amount
    from ipistate.report.runs import Run

MOST_SHOWN: Final = 3
"""Values of one setting that are named; the rest is counted."""

_NAMES: Final[Mapping[str, str]] = {
    "policy": "Policy",
    "model": "Model",
    "api": "API",
    "temperature": "Temperature",
    "top_p": "Top p",
    "max_output_tokens": "Longest reply, tokens",
    "reasoning": "Reasoning",
    "seed": "Seed",
    "max_steps": "Most turns",
}
_ALWAYS: Final = frozenset({"model", "api", "temperature", "seed", "max_steps"})
"""Settings of which the page also says that they are not recorded."""

_AMOUNTS: Final[Mapping[str, str]] = {
    "turns": "Turns",
    "calls": "Tool calls",
    "tokens_in": "Tokens read",
    "tokens_out": "Tokens written",
    "cost": "Cost",
}


@attrs.frozen
class SettingRow:
    """A setting or an amount, with a text for each run; None where it is not recorded."""

    name: str
    values: tuple[str | None, ...]
    is_setting: bool = True

    @property
    def is_common(self) -> bool:
        """One value says it for all runs."""
        alike = len({*self.values}) == 1
        return alike and (self.is_setting or len(self.values) == 1)


def setting_rows(runs: Sequence[Run]) -> Iterator[SettingRow]:
    """Visit what the page says of all runs, in its order."""
    for name, words in _NAMES.items():
        values = tuple(_setting(run, name) for run in runs)
        if name in _ALWAYS or any(values):
            yield SettingRow(words, values)
    yield SettingRow("Tasks", tuple(_tasks(run) for run in runs))
    for name, words in _AMOUNTS.items():
        yield SettingRow(
            words,
            tuple(_amount(run, name, run.recorded.amounts.get(name)) for run in runs),
            is_setting=False,
        )


def _setting(run: Run, name: str) -> str | None:
    """Return what the rollouts say, else what the run's own file does."""
    if counts := run.recorded.settings.get(name):
        named = [one for one in counts.most_common() if one[0] != OTHERS]
        if len(counts) == 1:
            return named[0][0] if named else OTHERS
        listed = [f"{text} ({count:,})" for text, count in named[:MOST_SHOWN]]
        left = len(counts) - len(listed)
        return ", ".join([*listed, *([f"and {left} more"] if left else [])])
    options = run.made.get("policy_options")
    places = (options if isinstance(options, JsonObject) else JsonObject(), run.made)
    found = [value for one in places if (value := one.get(name)) is not None]
    return shown(found[0]) if found else None


def _tasks(run: Run) -> str | None:
    return f"{len(run.tasks):,}" if run.tasks else None


def _amount(run: Run, name: str, found: Amount | None) -> str | None:
    if found is None:
        return None
    digits = {"turns": 1, "calls": 1, "cost": 4}.get(name, 0)
    each = f"{found.mean:,.{digits}f} a rollout"
    if name in {"turns", "calls"}:
        told = f"{each}, {found.most:,} at most"
    else:
        total = f"{found.total:,.2f}" if name == "cost" else f"{found.total:,}"
        told = f"{total} in all, {each}"
    rollouts = run.groups.total.rollouts
    return told if found.n == rollouts else f"{told} (n = {found.n:,})"
