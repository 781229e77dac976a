"""Comparing texts whose minted ids differ: equal up to a one-to-one renaming. Pure."""

from __future__ import annotations

import re

from typing import TYPE_CHECKING, Final

import attrs

from ipistate.kernel import (
    JsonArray,
    JsonObject,
    JsonValue,
    trusted_array,
    trusted_object,
)


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

# The first lookahead is for speed, and so is the bound: no text costs more than its
# length. An id may follow an escape of JSON text (``\n``).
MINTED: Final = re.compile(
    r"(?=[A-Z])(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=\\u[0-9a-f]{4}))"
    r"((?:[A-Z]+-){1,8}|[A-Z])([0-9A-F]{6})(?![0-9A-Za-z])"
)
"""A record id as tools mint it: ``CL-`` or ``A``, and six hex digits."""


@attrs.frozen
class Renaming:
    """A one-to-one map from recorded ids to the ids of this execution.

    An id that is not in it has not been compared yet and stands for itself.
    """

    ids: Mapping[str, str] = attrs.field(factory=dict[str, str])

    @property
    def differing(self) -> dict[str, str]:
        """The ids that the recording and this execution mint differently."""
        return {old: new for old, new in self.ids.items() if old != new}

    def applied(self, text: str) -> str:
        """Write a recorded text with the ids of this execution."""
        if not self.ids:
            return text
        return MINTED.sub(lambda match: self.ids.get(match[0], match[0]), text)

    def renamed(self, value: JsonValue) -> JsonValue:
        """Write a recorded value with the ids of this execution, names included."""
        if isinstance(value, str):
            return self.applied(value)
        if isinstance(value, JsonObject):
            members = value.items()
            return trusted_object(
                {self.applied(n): self.renamed(m) for n, m in members}
            )
        if isinstance(value, JsonArray):
            return trusted_array([self.renamed(element) for element in value])
        return value

    def extended(self, recorded: str, executed: str) -> Renaming | None:
        """Learn from a pair of texts; None if no renaming makes them equal."""
        fresh = new_ids(self.ids, set(self.ids.values()), recorded, executed)
        return None if fresh is None else Renaming({**self.ids, **fresh})

    def guessed(self, recorded: str, executed: str) -> Renaming:
        """Pair the unknown ids of two texts that differ in more, as far as it goes."""
        ids, taken = dict(self.ids), set(self.ids.values())
        old, new = MINTED.split(recorded), MINTED.split(executed)
        for before, after in zip(_ids(old), _ids(new), strict=False):
            if (
                before not in ids
                and after not in taken
                and _kind(before) == _kind(after)
            ):
                ids[before] = after
                taken.add(after)
        return Renaming(ids)


def new_ids(
    ids: Mapping[str, str], taken: AbstractSet[str], recorded: str, executed: str
) -> dict[str, str] | None:
    """Say what a pair of texts teaches; None if no one-to-one map makes them equal.

    Args:
        ids: What is known; it costs nothing here, however much that is.
        taken: The values of ``ids``.
        recorded: The text of the recording.
        executed: That of this execution.
    """
    old, new = MINTED.split(recorded), MINTED.split(executed)
    if old[::3] != new[::3] or old[1::3] != new[1::3]:
        return None
    fresh: dict[str, str] = {}
    for before, after in zip(_ids(old), _ids(new), strict=True):
        known = ids.get(before) or fresh.setdefault(before, after)
        if known != after:
            return None
    values = set(fresh.values())
    return fresh if len(values) == len(fresh) and taken.isdisjoint(values) else None


def _ids(parts: list[str]) -> Iterator[str]:
    return map(str.__add__, parts[1::3], parts[2::3])


def _kind(minted: str) -> str:
    return minted[:-6]
