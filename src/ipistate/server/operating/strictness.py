"""How often strict arguments refuse a call, or would: counted, nothing else changes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter

from ipistate.errors import SchemaError
from ipistate.tools.strict import INVALID_ARGUMENTS, find_violation, strict


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ipistate.kernel import JsonObject
    from ipistate.tools import Tool, Transition


class Strictness:
    """Counts calls of tools whose arguments are not what the tool's schema says."""

    def __init__(self, tools: Mapping[str, Tool], registry: CollectorRegistry) -> None:
        """Start at zero; a tool without a usable schema breaks none."""
        self._lenient = dict(_lenient(tools))
        self._invalid = Counter(
            "ipistate_invalid_arguments",
            "Tool calls that strict arguments refuse, or would refuse.",
            ["tool"],
            registry=registry,
        )
        self._refused = Counter(
            "ipistate_strict_refusals",
            "Tool calls that strict arguments refused.",
            ["tool"],
            registry=registry,
        )

    def count(self, name: str, arguments: JsonObject, done: Transition) -> None:
        """Count a call of a known tool."""
        if done.error is not None and done.error.type == INVALID_ARGUMENTS:
            self._refused.labels(name).inc()
            self._invalid.labels(name).inc()
        elif (one := self._lenient.get(name)) and find_violation(one, arguments):
            self._invalid.labels(name).inc()


def _lenient(tools: Mapping[str, Tool]) -> Iterator[tuple[str, Tool]]:
    for name, one in tools.items():
        with suppress(SchemaError):
            if strict({name: one})[name] is not one:
                yield name, one
