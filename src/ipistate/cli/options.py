"""Options that several verbs have, each written once."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import click

from ipistate.cli.exits import MissingExtraError
from ipistate.cli.imported import chosen_tools


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ipistate.tools import Tool

F = TypeVar("F", bound="Callable[..., Any]")
Tools: TypeAlias = "Mapping[str, Tool]"


class FiniteRange(click.FloatRange):
    """A number in a range; neither infinity nor what is no number, which no range ends."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Read a number.

        Raises:
            BadParameter: It is none, not finite, or out of the range.
        """
        number = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


FILE: Final = click.Path(dir_okay=False, path_type=Path)
"""A file that is named, and not standard input."""

AS_JSON: Final = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Write one JSON document to standard output.",
)
DIRECTORY: Final = click.argument("directory", type=click.Path(path_type=Path))


def token_options(whose: str) -> Callable[[F], F]:
    """Make the two options that say where a bearer token is, of which one may be given."""

    def decorated(function: F) -> F:
        of_file = click.option(
            "--token-file", type=FILE, help=f"File with the bearer token of {whose}."
        )
        of_name = click.option(
            "--token-env",
            metavar="NAME",
            help="Environment variable with the token, instead of a file.",
        )
        return of_file(of_name(function))

    return decorated


def _tools(ctx: click.Context, param: click.Parameter, value: object) -> Tools:
    return strict_tools(ctx, param.opts[0]) if value else chosen_tools(ctx)


def strict_tools(ctx: click.Context, option: str) -> Tools:
    """Return the chosen tools such that they refuse what their schemas do not allow.

    Raises:
        MissingExtraError: They need a module that is not installed.
    """
    try:
        module = import_module("ipistate.tools.strict")
    except ModuleNotFoundError as error:
        name = error.name or ""
        if name.startswith("ipistate"):
            raise
        verb = ctx.command_path.partition(" ")[2]
        raise MissingExtraError(f"{verb} {option}", name, "strict") from error
    tools: Tools = module.strict(chosen_tools(ctx))
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
