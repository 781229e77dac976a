"""Typed, read-only records for the well-formed rows of a domain's tables.

A world's shape is open, so tools never need these. They are for people and programs
that want names and types: a row keeps its unknown members and the order of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self, TypeAlias

import attrs

from ipistate.errors import SchemaError
from ipistate.kernel import EMPTY_OBJECT, JsonObject, structure, unstructure


if TYPE_CHECKING:
    from ipistate.kernel import Environment


@attrs.frozen(kw_only=True)
class Row:
    """Base of every typed row.

    An optional member that is ``None`` is absent, unless it was null when it was read.
    """

    extra: JsonObject = EMPTY_OBJECT
    """Members that the domain does not know, in their order."""
    member_order: tuple[str, ...] = attrs.field(default=(), repr=False, eq=False)
    """Names of all members as they stood in the document."""

    @classmethod
    def from_document(cls, document: object) -> Self:
        """Read a row strictly.

        Raises:
            SchemaError: A known member is missing or of another type.
        """
        return structure(document, cls)

    def to_document(self) -> JsonObject:
        """Write the row back: members keep their places, new ones go last."""
        members = unstructure(self)
        if self.member_order:
            return members
        return JsonObject({n: m for n, m in members.items() if m is not None})

    @classmethod
    def table(cls, environment: Environment, collection: str) -> dict[str, Self]:
        """Read a whole table as typed rows by id; a missing table has none.

        Raises:
            SchemaError: The collection is not a table, or a row is not well formed.
        """
        rows = environment.document.get(collection, EMPTY_OBJECT)
        if not isinstance(rows, dict):
            raise SchemaError("wrong_type", "not a table", f"$.{collection}")
        return {row_id: cls.from_document(row) for row_id, row in rows.items()}


Records: TypeAlias = Mapping[str, type[Row]]
"""The typed rows of a domain, by collection."""
