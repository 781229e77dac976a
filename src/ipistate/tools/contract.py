"""What a function's signature says about the tool that is made of it."""

from __future__ import annotations

from collections.abc import Callable
from inspect import (
    Parameter,
    isasyncgenfunction,
    iscoroutinefunction,
    isgeneratorfunction,
    signature,
)
from typing import Any, Final, Self

import attrs

from ipistate.kernel import misused


_NAMELESS: Final = (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)
_DEFERRED: Final = (isasyncgenfunction, iscoroutinefunction, isgeneratorfunction)
_INSTEAD: Final = "def name(world, argument, …): return world, reply"


@attrs.frozen(kw_only=True)
class Contract:
    """How a tool is called: its name, and the arguments that it takes by name."""

    name: str
    names: tuple[str, ...]
    """Arguments in declaration order."""
    required: tuple[str, ...]
    """Those without a default."""
    ignores_unknown: bool

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Self:
        """Read a function's signature.

        Raises:
            TypeError: It cannot be called with the world first and its arguments by
                name, or it does not return its result at once.
        """
        name = _name_of(function)
        world, *parameters = _parameters_of(function, name)
        if world.kind in {Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD}:
            raise _unfit(f"{name} must take the world by position, first")
        if any(parameter.kind in _NAMELESS for parameter in parameters):
            raise _unfit(f"{name} must take its arguments by name")
        named = [p for p in parameters if p.kind is not Parameter.VAR_KEYWORD]
        return cls(
            name=name,
            names=tuple(p.name for p in named),
            required=tuple(p.name for p in named if p.default is Parameter.empty),
            ignores_unknown=len(named) < len(parameters),
        )


def _name_of(function: Callable[..., Any]) -> str:
    if not callable(function):
        raise misused("tool() takes a function", function, _INSTEAD)
    name: object = getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise misused("tool() takes a function with a name", function, _INSTEAD)
    return name


def _parameters_of(function: Callable[..., Any], name: str) -> list[Parameter]:
    if isinstance(function, type):
        raise _unfit(f"{name} is a class")
    if any(is_deferred(function) for is_deferred in _DEFERRED):
        raise _unfit(f"{name} must return its result at once, without async or yield")
    parameters = [*signature(function).parameters.values()]
    if not parameters:
        raise _unfit(f"{name} must take the world, first")
    return parameters


def _unfit(reason: str) -> TypeError:
    return TypeError(f"{reason}; write {_INSTEAD}")
