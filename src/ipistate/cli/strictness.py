"""The option that makes tools refuse arguments, for verbs that execute calls."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias

import click

from ipistate.cli.exits import MissingExtraError
from ipistate.tools import TOOLS


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ipistate.tools import Tool

Tools: TypeAlias = "Mapping[str, Tool]"


def _tools(ctx: click.Context, param: click.Parameter, value: object) -> Tools:
    if not value:
        return TOOLS
    try:
        module = import_module("ipistate.tools.strict")
    except ModuleNotFoundError as error:
        name = error.name or ""
        if name.startswith("ipistate"):
            raise
        verb = ctx.command_path.partition(" ")[2]
        raise MissingExtraError(f"{verb} {param.opts[0]}", name, "strict") from error
    tools: Tools = module.strict()
    return tools


tools_option: Final = partial(click.option, is_flag=True, callback=_tools)
"""Make an option from its name, ``tools`` and its help; the verb gets tools with it."""

STRICT: Final = tools_option(
    "--strict",
    "tools",
    help="Refuse arguments that are not what the tool's schema says.",
)
STRICT_LOGS: Final = tools_option(
    "--strict",
    "tools",
    help="Execute logs as a server with --strict-arguments has: arguments that are not "
    "what the tool's schema says are refused.",
)
