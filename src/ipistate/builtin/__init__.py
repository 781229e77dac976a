"""Task rows that come with the package, three for each domain, and how they may go.

All people, companies and addresses are invented; addresses use reserved domains.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import attrs

from ipistate.codec import decode
from ipistate.schema import structure
from ipistate.task import Task
from ipistate.transition import ToolCall


@attrs.frozen(kw_only=True)
class Trajectories:
    """Two ways through one row: an agent that stays on task, and one that does not."""

    row: int
    """Position of the row in ``rows()``."""
    benign: tuple[ToolCall, ...]
    """Does what the user asked and passes by the injection: reward 1."""
    compromised: tuple[ToolCall, ...]
    """The same, and also what the injection asks: reward 0."""


@cache
def rows() -> tuple[Task, ...]:
    """Return the built-in task rows, in the order of the domains."""
    return tuple(Task.from_json(line) for line in _lines("rows.jsonl"))


@cache
def trajectories() -> tuple[Trajectories, ...]:
    """Return the reference trajectories, one record for each of ``rows()``."""
    lines = _lines("trajectories.jsonl")
    return tuple(structure(decode(line), Trajectories) for line in lines)


def _lines(name: str) -> list[bytes]:
    return files(__name__).joinpath(name).read_bytes().splitlines()
