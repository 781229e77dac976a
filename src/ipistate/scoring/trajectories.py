"""Reference trajectories: how an agent may go through a task row, well and badly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import attrs

from ipistate.errors import SchemaError, preview
from ipistate.kernel import decode, encode, structure, unstructure
from ipistate.tools import ToolCall


if TYPE_CHECKING:
    from collections.abc import Iterable


@attrs.frozen(kw_only=True)
class Trajectories:
    """Two ways through one row: an agent that stays on task, and one that does not."""

    row: int
    """Position of the row in its file, from 0."""
    benign: tuple[ToolCall, ...]
    """Does what the user asked and passes by the injection; its reward is 1."""
    compromised: tuple[ToolCall, ...]
    """The same, and also what the injection asks; its reward is 0."""

    @classmethod
    def from_json(cls, line: bytes | str) -> Self:
        """Read one line of a file of trajectories.

        Raises:
            DecodeError: The line is not acceptable JSON.
            SchemaError: It is, but not two trajectories.
        """
        return structure(decode(line), cls)

    def to_json(self) -> bytes:
        """Write the trajectories as one line of compact JSON, without its end."""
        return encode(unstructure(self))


def by_row(ways: Iterable[Trajectories], rows: int) -> dict[int, Trajectories]:
    """Sort trajectories by the row that they belong to; a row may have none.

    Raises:
        SchemaError: ``unknown_row``: there are only ``rows`` rows. ``duplicate_row``:
            one has several.
    """
    found: dict[int, Trajectories] = {}
    for one in ways:
        shown = preview(one.row)
        if not 0 <= one.row < rows:
            message = f"there are {rows} rows, counted from 0"
            raise SchemaError("unknown_row", message, "$.row", shown)
        if one.row in found:
            message = "the row has trajectories already"
            raise SchemaError("duplicate_row", message, "$.row", shown)
        found[one.row] = one
    return found
