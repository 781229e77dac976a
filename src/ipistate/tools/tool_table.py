"""A name space of tools: read-only, short when it is printed, helpful when it misses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NoReturn, Self

from ipistate.kernel import Immutable, Refusing, listed, misused, refuse_change
from ipistate.tools.arguments import suggestion
from ipistate.tools.registry import Tool


_LONGEST = 100
"""Characters of a name that is compared with others; the cost grows with its square."""


class ToolTable(Immutable, dict[str, Tool]):
    """Tools by their names, in order; made by ``table_of``."""

    __slots__ = ()

    __setitem__: ClassVar[Refusing] = refuse_change
    __delitem__: ClassVar[Refusing] = refuse_change
    __ior__: ClassVar[Refusing] = refuse_change
    clear: ClassVar[Refusing] = refuse_change
    pop: ClassVar[Refusing] = refuse_change
    popitem: ClassVar[Refusing] = refuse_change
    setdefault: ClassVar[Refusing] = refuse_change
    update: ClassVar[Refusing] = refuse_change

    def __missing__(self, name: str) -> NoReturn:
        near = nearest(name, self)
        hint = "" if near is None else f"; did you mean {near!r}?"
        raise KeyError(f"no tool is called {name[:_LONGEST]!r}{hint}")

    def __repr__(self) -> str:
        return f"ToolTable({len(self)} tools)"

    def copy(self) -> Self:
        """Return the table itself: it cannot change."""
        return self

    def __reduce__(self) -> tuple[Callable[..., ToolTable], tuple[Any, ...]]:
        return ToolTable, (dict(self),)


def table_of(*groups: Iterable[Tool]) -> Mapping[str, Tool]:
    """Gather tools into one read-only name space.

    Raises:
        ValueError: Two tools have one name.
        TypeError: A group has something else than tools.
    """
    tools: dict[str, Tool] = {}
    for group in groups:
        for one in listed(group, "table_of() takes groups of tools", "table_of([…])"):
            require_tool(one)
            if one.name in tools:
                raise ValueError(f"two tools are called {one.name!r}")
            tools[one.name] = one
    return ToolTable(tools)


def require_tool(one: object) -> None:
    """Refuse what is no tool, for example the function that one is made of.

    Raises:
        TypeError: With what to write instead.
    """
    if not isinstance(one, Tool):
        instead = 'table_of([tool(function, "domain")])'
        raise misused("a table of tools holds Tools", one, instead)


def nearest(name: str, tools: Iterable[str]) -> str | None:
    """Find the tool that a wrong name probably means, if there is one.

    A client's prefix (``functions.send_message``, ``mcp__ipi__send_message``) is seen
    through; else the name with the fewest typing errors wins.
    """
    if len(name) > _LONGEST:
        return None
    known = sorted(tools, key=len, reverse=True)
    for one in known:
        if name.endswith(one) and not name[: -len(one)][-1:].isalnum():
            return one
    return suggestion(name, tools) or suggestion(name.lower(), tools)
