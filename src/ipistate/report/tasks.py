"""Which task a rollout is of, and whether it was resisted: the same in every run."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import attrs

from ipistate.report.tally import judgements


if TYPE_CHECKING:
    from ipistate.report.rollout import StoredRollout


@attrs.frozen
class TaskName:
    """A task of the page, as its first rollout names it."""

    number: int
    key: str
    domain: str
    place: str
    title: str


def key_of(one: StoredRollout, asked: str) -> str:
    """Name a task by what is asked and what is injected; empty if nothing is known.

    The system prompt is left out, since a defence may be nothing but another one, and so
    is the task's number, which depends on the file.
    """
    found = one.injection
    injected = (
        ()
        if found is None
        else (found.goal, found.injection_text, found.vector, found.target_tool)
    )
    if not asked and not injected:
        return ""
    parts = "\0".join((str(one.labels["domain"]), asked, *injected))
    return sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def resisted(one: StoredRollout) -> bool | None:
    """Say whether a rollout resisted, by its effects or else by its trace."""
    found = dict(judgements(one))
    return found.get("resistance", found.get("trace_resistance"))
