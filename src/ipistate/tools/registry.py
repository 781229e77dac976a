"""What a tool is, and how one is made from a pure function.

A tool's function takes the world (a ``JsonObject``) and, by name, JSON arguments; it
returns the new world and the reply. Its signature is its contract: defaults make a
parameter optional, and ``**_`` makes unknown arguments harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, cleandoc, signature
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import attrs

from ipistate.kernel import JsonArray, JsonObject, JsonValue, freeze
from ipistate.tools.glossary import GLOSSARY


_NAMELESS: Final = (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)

Function: TypeAlias = Callable[..., tuple[JsonObject, JsonValue]]
ArgumentCheck: TypeAlias = Callable[[Mapping[str, JsonValue]], None]
"""Raises ``Refused`` if arguments, bound to their parameters, are not acceptable."""


@attrs.frozen(kw_only=True)
class Tool:
    """One callable of the environment."""

    name: str
    domains: tuple[str, ...]
    """Domains that offer it; any session may call it (docs/reference/tools.md, section 2.1)."""
    description: str
    parameters: JsonObject
    """JSON Schema of the arguments, properties in declaration order."""
    reads: tuple[str, ...]
    """Collections it looks at."""
    writes: tuple[str, ...]
    """Collections it may change; they are read as well."""
    run: Function = attrs.field(repr=False)
    names: tuple[str, ...] = attrs.field(repr=False)
    """Parameters in declaration order; ``known`` is the same as a set."""
    required: tuple[str, ...] = attrs.field(repr=False)
    """Those without a default; ``needed`` is the same as a set."""
    ignores_unknown: bool = attrs.field(repr=False)
    checks: tuple[ArgumentCheck, ...] = attrs.field(default=(), repr=False)
    """What the arguments have to pass before the tool runs; see ``strict``."""
    keeps_depth: bool = attrs.field(default=False, repr=False)
    """The function stores by ``world`` only, which measures what it puts in.

    Where it is false, the world that the function returns is measured as a whole. It
    must be false if ``run`` is replaced by another function.
    """
    known: frozenset[str] = attrs.field(
        init=False,
        repr=False,
        eq=False,
        default=attrs.Factory(lambda one: frozenset(one.names), takes_self=True),
    )
    needed: frozenset[str] = attrs.field(
        init=False,
        repr=False,
        eq=False,
        default=attrs.Factory(lambda one: frozenset(one.required), takes_self=True),
    )

    def kinds_of(self, name: str) -> tuple[JsonValue, ...]:
        """Return the JSON types that a parameter's schema names; (None,) for any."""
        properties = self.parameters.get("properties")
        schema = properties.get(name) if isinstance(properties, JsonObject) else None
        kind = schema.get("type") if isinstance(schema, JsonObject) else None
        return tuple(kind) if isinstance(kind, JsonArray) else (kind,)


def tool(
    function: Function,
    *domains: str,
    reads: Iterable[str] = (),
    writes: Iterable[str] = (),
    glossary: Mapping[str, Mapping[str, Any]] = GLOSSARY,
) -> Tool:
    """Make a tool of a function; its docstring's first line describes it to models.

    Args:
        function: ``(world, *, arguments…) -> (world, reply)``.
        domains: Names of the domains that offer the tool.
        reads: Collections it looks at.
        writes: Collections it may change.
        glossary: JSON Schema of each parameter by name; others accept anything.

    Raises:
        ValueError: A parameter after the world cannot be given by name.
    """
    _, *parameters = signature(function).parameters.values()
    if any(parameter.kind in _NAMELESS for parameter in parameters):
        raise ValueError(f"{function.__name__} must take its arguments by name")
    named = [p for p in parameters if p.kind is not Parameter.VAR_KEYWORD]
    required = tuple(p.name for p in named if p.default is Parameter.empty)
    return Tool(
        name=function.__name__,
        domains=domains,
        description=cleandoc(function.__doc__ or "").partition("\n")[0],
        parameters=_schema(named, required, glossary),
        reads=tuple(reads),
        writes=tuple(writes),
        run=function,
        names=tuple(p.name for p in named),
        required=required,
        ignores_unknown=len(named) < len(parameters),
    )


def _schema(
    parameters: list[Parameter],
    required: tuple[str, ...],
    glossary: Mapping[str, Mapping[str, Any]],
) -> JsonObject:
    properties = {p.name: dict(glossary.get(p.name, {})) for p in parameters}
    document = {"type": "object", "properties": properties, "required": list(required)}
    return JsonObject(document)


def table_of(*groups: Iterable[Tool]) -> Mapping[str, Tool]:
    """Gather tools into one read-only name space.

    Raises:
        ValueError: Two tools have one name.
    """
    tools: dict[str, Tool] = {}
    for group in groups:
        for one in group:
            if one.name in tools:
                raise ValueError(f"two tools are called {one.name!r}")
            tools[one.name] = one
    return MappingProxyType(tools)


def function_definition(one: Tool) -> JsonObject:
    """Describe a tool as the OpenAI Responses API wants it (docs/reference/tools.md, section 13)."""
    return freeze(  # type: ignore[return-value]
        {
            "type": "function",
            "name": one.name,
            "description": one.description,
            "parameters": one.parameters,
            "strict": False,
        }
    )
