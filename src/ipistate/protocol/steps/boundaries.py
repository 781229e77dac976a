"""Boundaries as JSON objects: the member ``next`` says which step follows.

A protocol's boundaries are closed records. Version 1 carries no number, so that it is
what other implementations write; a later one has ``schema_version``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeGuard, TypeVar

import attrs

from ipistate.errors import SchemaError, json_path, preview
from ipistate.kernel import (
    JsonObject,
    JsonValue,
    MigrationChain,
    adopt_members,
    freeze,
    is_object,
    structure,
    trusted_object,
    unstructure,
)
from ipistate.protocol.episode import rule
from ipistate.protocol.steps.events import StepMode


if TYPE_CHECKING:
    from ipistate.kernel import Adopt

B = TypeVar("B")

BOUNDARY_VERSIONS: Final = MigrationChain(newest=1)
"""The versions of boundaries and of the records around them."""


def check_version(tree: Mapping[str, Any]) -> None:
    """Refuse a document of a version that is not known here.

    Raises:
        SchemaError: ``unsupported_version``, or ``wrong_type`` for no version at all.
    """
    problem = "schema_version" in tree and BOUNDARY_VERSIONS.problem_of(tree)
    if problem:
        raise SchemaError.of([problem])


@attrs.frozen
class BoundaryCodec(Generic[B]):
    """How the boundaries of one protocol are written and read.

    Args:
        kinds: The record of each value of ``next``.
    """

    kinds: Mapping[str, type[B]]

    def encode(self, boundary: B) -> JsonObject:
        """Write a boundary; ``next`` stands first."""
        names = {kind: name for name, kind in self.kinds.items()}
        return trusted_object({"next": names[type(boundary)], **unstructure(boundary)})

    def decode(self, tree: object, adopt: Adopt = freeze) -> B:
        """Read what ``encode`` has written, keeping parts by ``adopt`` only.

        Raises:
            SchemaError: ``unknown_boundary`` if no step of this protocol is called that;
                otherwise as ``structure``.
        """
        if not is_object(tree):
            shown = preview(tree)
            raise SchemaError("wrong_type", "a boundary is an object", preview=shown)
        check_version(tree)
        kind = self._kind(tree)
        rest = {name: member for name, member in tree.items() if name != "next"}
        return structure(adopt_members(rest, adopt), kind)

    def _kind(self, tree: dict[str, Any]) -> type[B]:
        where = json_path(["next"])
        if "next" not in tree:
            message = "required member is missing"
            raise SchemaError("missing_member", message, where)
        named, shown = tree["next"], preview(tree["next"])
        if not isinstance(named, str):
            raise SchemaError("wrong_type", "expected a string", where, shown)
        if named not in self.kinds:
            message = f"no step of this protocol; known are {', '.join(self.kinds)}"
            raise SchemaError("unknown_boundary", message, where, shown)
        return self.kinds[named]


def is_cookies(value: JsonValue) -> TypeGuard[JsonObject]:
    """Tell whether a value gives the values of cookies by name."""
    return isinstance(value, JsonObject) and all(
        isinstance(one, str) for one in value.values()
    )


def check_cookies(_: object, field: attrs.Attribute[Any], cookies: JsonObject) -> None:
    """Validate a field that holds the values of cookies by name."""
    for name, value in cookies.items():
        if not isinstance(value, str):
            where = json_path([field.name, name])
            raise SchemaError("wrong_type", "expected a string", where, preview(value))


check_verify_mode: Final = rule(
    "invalid_verify_mode",
    "a verify mode is wait or replay",
    lambda mode: mode in {*StepMode},
)
"""Validates a field that says what a checkpoint does about a verify request."""
