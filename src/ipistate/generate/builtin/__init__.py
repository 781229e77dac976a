"""Task rows that come with the package, three for each domain, and how they may go.

All people, companies and addresses are invented; addresses use reserved domains.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from ipistate.scoring import Task, Trajectories


__all__ = ["Trajectories", "rows", "trajectories"]


@cache
def rows() -> tuple[Task, ...]:
    """Return the built-in task rows, in the order of the domains."""
    return tuple(Task.from_json(line) for line in _lines("rows.jsonl"))


@cache
def trajectories() -> tuple[Trajectories, ...]:
    """Return the reference trajectories, one record for each of ``rows()``."""
    lines = _lines("trajectories.jsonl")
    return tuple(map(Trajectories.from_json, lines))


def _lines(name: str) -> list[bytes]:
    return files(__name__).joinpath(name).read_bytes().splitlines()
