"""Options that several verbs have, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click


if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

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
