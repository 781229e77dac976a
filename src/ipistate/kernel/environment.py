"""The world of one session: an immutable JSON object behind a typed name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, overload

import attrs

from ipistate.errors import SchemaError, preview
from ipistate.kernel.codec import decode, decode_as, encode_checked
from ipistate.kernel.places import J, narrowed, value_at
from ipistate.kernel.repeated import refuse_repeated_members
from ipistate.kernel.summaries import (
    amount,
    amount_of,
    html_table,
    key_text,
    listing,
    summary,
)
from ipistate.kernel.values import JsonObject, JsonValue, freeze


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


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

    A world is read like a dictionary: ``world["patients"]``, ``"patients" in world``,
    ``len(world)``, ``for collection in world``; an empty one is false. ``at`` reads a
    place further down, with its type.
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
    def from_json(
        cls, data: bytes | str, *, repeated: Literal["last", "refuse"] = "last"
    ) -> Self:
        """Read an environment from JSON text.

        Args:
            data: The text.
            repeated: What happens to a member that stands in its object more than once.
                ``last``: its last value counts, at its first position, as for most
                readers of JSON; the others are lost. ``refuse``: the text is refused,
                which takes several times as long to find out.

        Raises:
            DecodeError: The text is not acceptable JSON; ``duplicate_key``: a member is
                repeated and that is refused.
            SchemaError: It is JSON, but not an object.
        """
        if repeated == "refuse":
            decode(data)  # finds everything else that is wrong, and what is too deep
            refuse_repeated_members(data)
        return decode_as(data, lambda tree, adopt: cls(adopt(tree)))  # type: ignore[arg-type]

    def __getitem__(self, collection: str) -> JsonValue:
        return self.document[collection]

    def __contains__(self, collection: object) -> bool:
        return collection in self.document

    def __len__(self) -> int:
        return len(self.document)

    def __iter__(self) -> Iterator[str]:
        return iter(self.document)

    @overload
    def at(self, *path: str | int) -> JsonValue: ...
    @overload
    def at(self, *path: str | int, of: type[J]) -> J: ...
    def at(self, *path: str | int, of: type[J] | None = None) -> JsonValue:
        """Read one place: ``world.at("patients", "P-7", "name", of=str)``.

        Args:
            path: Names of members and indices of elements that lead there.
            of: The type that the value has to have, and that type checkers then know:
                ``str``, ``int``, ``float`` (any number), ``bool``, ``JsonObject`` or
                ``JsonArray``.

        Raises:
            SchemaError: ``missing_member``: there is no such place; ``wrong_type``: its
                value has another type; with the place as the error's path.
        """
        value = value_at(self.document, path)
        return value if of is None else narrowed(value, of, path)

    def __repr__(self) -> str:
        members = self.document.items()
        parts = (f"{key_text(name)}: {amount_of(member)}" for name, member in members)
        return listing(type(self).__name__, parts, amount(len(members), "member"))

    def _repr_html_(self) -> str:
        members = self.document.items()
        rows = ((n, amount_of(one), summary(one)) for n, one in members)
        return html_table(
            "World", ("collection", "size", "content"), rows, len(members)
        )

    def to_json(self) -> bytes:
        """Write the environment as compact JSON, key order kept.

        Raises:
            EncodeError: ``not_finite``: a number was forced into it.
        """
        return encode_checked(self.document)
