"""What a tool is, and how one is made from a pure function.

A tool's function takes the world (a ``JsonObject``) and, by name, JSON arguments; it
returns the new world and the reply. Its signature is its contract: defaults make a
parameter optional, and ``**_`` makes unknown arguments harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import cleandoc
from typing import Any, ClassVar, TypeAlias

import attrs

from ipistate.kernel import (
    JsonArray,
    JsonObject,
    JsonValue,
    Representation,
    freeze,
    listed,
    summarized,
)
from ipistate.tools.contract import Contract
from ipistate.tools.glossary import GLOSSARY


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

    __repr__: ClassVar[Representation] = summarized(
        "name", "required", "reads", "writes"
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
        TypeError: The function cannot be called as a tool: it is asynchronous or a
            generator, has no name, or takes the world or an argument in another way;
            or ``reads`` or ``writes`` is one name instead of several.
    """
    contract = Contract.of(function)
    return Tool(
        name=contract.name,
        domains=domains,
        description=cleandoc(function.__doc__ or "").partition("\n")[0],
        parameters=_schema(contract, glossary),
        reads=_collections("reads", reads),
        writes=_collections("writes", writes),
        run=function,
        names=contract.names,
        required=contract.required,
        ignores_unknown=contract.ignores_unknown,
    )


def _collections(option: str, names: Iterable[str]) -> tuple[str, ...]:
    return listed(names, f"{option}= takes names of collections", f'{option}=["…"]')


def _schema(
    contract: Contract, glossary: Mapping[str, Mapping[str, Any]]
) -> JsonObject:
    properties = {name: dict(glossary.get(name, {})) for name in contract.names}
    required = list(contract.required)
    return JsonObject(
        {"type": "object", "properties": properties, "required": required}
    )


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
