"""Where a recorded reply and the one of a new execution begin to differ. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ipistate.errors import DecodeError, json_path
from ipistate.kernel import decode, diff, first_difference


if TYPE_CHECKING:
    from ipistate.scoring.renaming import Renaming


@attrs.frozen(kw_only=True)
class Divergence:
    """The first difference of two replies."""

    recorded: str
    """With the ids of this execution, as far as they are known or can be guessed."""
    executed: str
    offset: int
    """Characters that both begin with."""
    path: str | None
    """JSONPath of the first difference; None if a reply is no JSON, or they differ in
    spelling only."""


def divergence(recorded: str, executed: str, names: Renaming) -> Divergence:
    """Compare two replies that no renaming makes equal.

    Ids that the recording minted otherwise are no difference by themselves, unless
    there is no other.
    """
    ours = names.guessed(recorded, executed).applied(recorded)
    return Divergence(
        recorded=ours,
        executed=executed,
        offset=first_difference(ours, executed),
        path=_path(ours, executed),
    )


def _path(left: str, right: str) -> str | None:
    try:
        found = diff(decode(left), decode(right))
    except DecodeError:
        return None
    return json_path(found.operations[0].path) if found else None
