"""A chain of pure steps that brings an older state document to the newest version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import attrs

from ipistate.errors import Problem, SchemaError, preview
from ipistate.kernel.values import JsonObject


Migration: TypeAlias = Callable[[JsonObject], JsonObject]
"""Writes a document of one version as a document of the next; changes nothing."""

_WHERE: Final = "$.schema_version"


@attrs.frozen
class MigrationChain:
    """Which versions can be read: the newest one, and all with steps towards it.

    ``steps[n]`` leads from version n to n + 1. A document is migrated by values only,
    so a batch of which one fails leaves nothing half migrated.
    """

    newest: int
    steps: Mapping[int, Migration] = MappingProxyType({})
    elsewhere: Mapping[int, str] = MappingProxyType({})
    """Newer versions that others read, and what to do with a document of one."""

    def problem_of(self, document: Mapping[str, Any]) -> Problem | None:
        """Say why this chain cannot read a document of that version, if so."""
        if "schema_version" not in document:
            return Problem("missing_member", _WHERE, "required member is missing")
        version = document["schema_version"]
        if type(version) is not int:
            shown = preview(version)
            return Problem("wrong_type", _WHERE, "expected an integer", shown)
        message = self._unreadable(version)
        if message is None:
            return None
        return Problem("unsupported_version", _WHERE, message, preview(version))

    def _unreadable(self, version: int) -> str | None:
        if version > self.newest:
            shown = preview(version)
            known = (
                f"version {shown} is newer than {self.newest}, the newest known here"
            )
            return "; ".join([known, *filter(None, [self.elsewhere.get(version)])])
        if version < 1:
            return f"versions count from 1 to {self.newest}"
        missing = [n for n in range(version, self.newest) if n not in self.steps]
        if missing:
            return f"no step leads from version {missing[0]} to {missing[0] + 1}"
        return None

    def upgrade(self, document: JsonObject) -> JsonObject:
        """Apply the steps from the document's version to the newest.

        Raises:
            SchemaError: The version cannot be read, or a step refuses the document or
                does not lead to the next version (``failed_migration``).
        """
        problem = self.problem_of(document)
        if problem is not None:
            raise SchemaError.of([problem])
        for version in range(document["schema_version"], self.newest):  # type: ignore[arg-type]
            document = _stepped(self.steps[version], version, document)
        return document


def _stepped(step: Migration, version: int, document: JsonObject) -> JsonObject:
    try:
        stepped = step(document)
    except SchemaError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        # A document that its own version did not allow; steps need not expect that.
        message = f"the step from version {version} failed: {error!r}"
        raise SchemaError("failed_migration", message) from error
    if stepped.get("schema_version") != version + 1:
        message = f"the step from version {version} ended elsewhere"
        raise SchemaError("failed_migration", message, _WHERE)
    return stepped
