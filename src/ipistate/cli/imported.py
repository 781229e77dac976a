"""Things of the user's own, named as ``MODULE:NAME``: tables of tools, policies, verifiers.

Modules of the working directory are found, as with ``python -m``.
"""

from __future__ import annotations

import sys

from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from ipistate.tools import TOOLS, Tool


if TYPE_CHECKING:
    from collections.abc import Callable

    F = TypeVar("F", bound="Callable[..., Any]")

_TABLE: Final = "ipistate.tools"
"""Where a verb keeps the table that was chosen, and its name, until it is asked."""


def imported(name: str) -> object:
    """Import what ``MODULE:NAME`` names.

    Raises:
        BadParameter: It has another form, or cannot be imported; the message says why.
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise click.BadParameter(f"{name!r} is not MODULE:NAME, as package.module:name")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return cast("object", resolve_name(name))
    except Exception as error:
        # A module of the user's may raise anything while it is imported.
        message = f"cannot import {name!r}: {type(error).__name__}: {error}"
        raise click.BadParameter(message) from error


def imported_table(name: str) -> Mapping[str, Tool]:
    """Import a table of tools, a mapping from names to ``Tool``.

    Raises:
        BadParameter: It is not one.
    """
    found = imported(name)
    members = cast("Mapping[object, object]", found)
    if not isinstance(found, Mapping) or not all(
        isinstance(one, Tool) for one in members.values()
    ):
        message = (
            f"{name!r} is no table of tools; make one with ipistate.tools.table_of"
        )
        raise click.BadParameter(message)
    return cast("Mapping[str, Tool]", found)


def _choose(ctx: click.Context, _: click.Parameter, name: str | None) -> str | None:
    if name is not None:
        ctx.meta[_TABLE] = imported_table(name)
    return name


def _table_option(*, expose: bool) -> Callable[[F], F]:
    return click.option(
        "--tools",
        "table",
        metavar="MODULE:TABLE",
        is_eager=True,
        expose_value=expose,
        callback=_choose,
        help="A table of tools of your own, in place of the built-in ones.",
    )


OWN_TOOLS: Final = _table_option(expose=False)
"""The option ``--tools``; ``chosen_tools`` gives what it chose."""
NAMED_TOOLS: Final = _table_option(expose=True)
"""The same for verbs whose processes import the table by its name, ``table``."""


def chosen_tools(ctx: click.Context) -> Mapping[str, Tool]:
    """Return the tools of ``--tools``, and the built-in ones without it."""
    return cast("Mapping[str, Tool]", ctx.meta.get(_TABLE, TOOLS))
