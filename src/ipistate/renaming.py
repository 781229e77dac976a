"""Comparing texts whose minted ids differ: equal up to a one-to-one renaming. Pure."""

from __future__ import annotations

import re

from typing import Final

import attrs


MINTED: Final = re.compile(
    r"(?<![A-Za-z0-9])((?:[A-Z]+-)+|[A-Z])([0-9A-F]{6})(?![0-9A-Za-z])"
)
"""A record id as tools mint it: ``CL-`` or ``A``, and six hex digits."""


@attrs.frozen
class Renaming:
    """A one-to-one map from recorded ids to the ids of this execution."""

    ids: dict[str, str] = attrs.field(factory=dict[str, str])

    def applied(self, text: str) -> str:
        """Write a recorded text with the ids of this execution."""
        return MINTED.sub(lambda match: self.ids.get(match[0], match[0]), text)

    def extended(self, recorded: str, executed: str) -> Renaming | None:
        """Learn from a pair of texts; None if no renaming makes them equal."""
        if self.applied(recorded) == executed:
            return self
        if MINTED.sub(r"\1", recorded) != MINTED.sub(r"\1", executed):
            return None
        ids = dict(self.ids)
        pairs = zip(MINTED.finditer(recorded), MINTED.finditer(executed), strict=True)
        for old, new in pairs:
            if ids.setdefault(old[0], new[0]) != new[0]:
                return None
        one_to_one = len(set(ids.values())) == len(ids)
        return Renaming(ids) if one_to_one else None
