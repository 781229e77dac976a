"""The world of one session: an immutable JSON object behind a typed name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import attrs

from ipistate.errors import SchemaError, preview
from ipistate.kernel.codec import decode_as, encode_checked
from ipistate.kernel.values import JsonObject, freeze


if TYPE_CHECKING:
    from collections.abc import Mapping


def _require_object(_: object, __: object, document: Any) -> None:
    if document.__class__ is not JsonObject:
        raise SchemaError(
            "wrong_type", "an environment is a JSON object", preview=preview(document)
        )


@attrs.frozen
class Environment:
    """The complete state of a session's world.

    Its members are *collections*: mostly tables from a record id to a record. Nothing
    more is required of their shape (docs/reference/tools.md, section 1). Key order is part of the
    value, because replies show it.
    """

    document: JsonObject = attrs.field(validator=_require_object)

    @classmethod
    def of(cls, members: Mapping[str, object]) -> Self:
        """Freeze plain Python data; the caller's objects are not kept.

        Raises:
            EncodeError: A part of it is not JSON.
            SchemaError: It is not an object.
        """
        return cls(freeze(members))  # type: ignore[arg-type]

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """Read an environment from JSON text.

        Raises:
            DecodeError: The text is not acceptable JSON.
            SchemaError: It is JSON, but not an object.
        """
        return decode_as(data, lambda tree, adopt: cls(adopt(tree)))  # type: ignore[arg-type]

    def to_json(self) -> bytes:
        """Write the environment as compact JSON, key order kept.

        Raises:
            EncodeError: ``not_finite``: a number was forced into it.
        """
        return encode_checked(self.document)
