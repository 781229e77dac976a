"""``--config``: a TOML file with the options of verbs, for those that are long."""

from __future__ import annotations

import tomllib

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import click

from ipistate.cli.exits import RefusedInputError, refusing
from ipistate.cli.texts import shown


if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BYTES: Final = 2**20


def _configure(ctx: click.Context, _: click.Parameter, file: Path | None) -> None:
    if file is None:
        return
    table = _read(file)
    for name in ctx.command_path.split(" ")[1:]:
        inner = table.get(name, {})
        if not isinstance(inner, dict):
            raise RefusedInputError(f"{shown(str(file))}: {name!r} is no table")
        table = cast("dict[str, object]", inner)
    ctx.default_map = {**(ctx.default_map or {}), **_named(ctx, file, table)}


def _read(file: Path) -> dict[str, object]:
    with refusing(str(file)), file.open("rb") as opened:
        data = opened.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        message = f"longer than {MAX_BYTES} bytes: this is no configuration"
        raise RefusedInputError(f"{shown(str(file))}: {message}")
    try:
        return tomllib.loads(data.decode())
    except ValueError as error:
        raise RefusedInputError(f"{shown(str(file))}: {error}") from error


def _named(
    ctx: click.Context, file: Path, table: Mapping[str, object]
) -> dict[str, object]:
    options = _options(ctx.command)
    unknown = next((name for name in table if name not in options), None)
    if unknown is not None:
        near = get_close_matches(unknown, options, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        path = ".".join(ctx.command_path.split(" ")[1:])
        message = f"[{path}] has no option {unknown!r}{hint}"
        raise RefusedInputError(f"{shown(str(file))}: {message}")
    return {options[name]: _value(value) for name, value in table.items()}


def _options(command: click.Command) -> dict[str, str]:
    # By the long name without its dashes, as it is written on the command line.
    return {
        name.removeprefix("--"): one.name
        for one in command.params
        if isinstance(one, click.Option) and one.name and one.name != "config"
        for name in one.opts
        if name.startswith("--")
    }


def _value(value: object) -> object:
    # Dates and times are written as the command line has them.
    if isinstance(value, list):
        return [*map(_value, cast("list[object]", value))]
    return value if isinstance(value, bool | int | float) else str(value)


CONFIGURATION: Final = click.Option(
    ["--config"],
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_configure,
    help="TOML file with options for this verb, in a table of its name; what stands on "
    "the command line goes before.",
)
"""The option; it reads before all the others, whose defaults it sets."""
