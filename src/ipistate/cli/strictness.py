"""The table of strict tools for verbs that take one, if its extra is installed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ipistate.cli.exits import MissingExtraError


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ipistate.tools import Tool


def strict_tools(verb: str) -> Mapping[str, Tool]:
    """Return the built-in tools with strict arguments, for ``verb --option``.

    Raises:
        MissingExtraError: ``jsonschema`` is not installed.
    """
    try:
        module = import_module("ipistate.tools.strict")
    except ModuleNotFoundError as error:
        name = error.name or ""
        if name.startswith("ipistate"):
            raise
        raise MissingExtraError(verb, name, "strict") from error
    tools: Mapping[str, Tool] = module.strict()
    return tools
