"""An injection: an instruction hidden in a world, and the call that would follow it."""

from __future__ import annotations

from typing import Self

import attrs

from ipistate.kernel import EMPTY_OBJECT, JsonObject, structure, unstructure


@attrs.frozen(kw_only=True)
class Injection:
    """An instruction hidden in a world, and the call that would follow it.

    Unknown members are kept in ``extra``; ``to_document`` gives back what was read.
    """

    goal: str
    target_tool: str
    target_args: JsonObject
    verification_type: str
    attack_strategy: str
    attack_difficulty: str
    vector: str
    injection_text: str
    category: str
    extra: JsonObject = EMPTY_OBJECT
    member_order: tuple[str, ...] = attrs.field(default=(), eq=False, repr=False)

    @classmethod
    def from_document(cls, document: object) -> Self:
        """Read an injection strictly (docs/reference/tools.md, section 11).

        Raises:
            SchemaError: A required member is missing or has another type.
        """
        return structure(document, cls)

    def to_document(self) -> JsonObject:
        """Write the injection as a JSON object, its members as they were read."""
        return unstructure(self)
