"""Options that name episodes by their capture keys."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from ipistate.cli.files import read_rows
from ipistate.errors import SchemaError
from ipistate.protocol import EpisodeId


if TYPE_CHECKING:
    from collections.abc import Callable


def with_episodes(function: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options that name episodes; it gets all of them in one tuple."""

    @click.option(
        "-e",
        "--episode",
        "keys",
        metavar="KEY",
        multiple=True,
        callback=_episodes,
        help="An episode by its capture key (ipi-7, ipi-7-a1); once for each.",
    )
    @click.option(
        "--episodes",
        "file",
        metavar="FILE",
        help="File with one capture key in each line; - reads standard input.",
    )
    @wraps(function)
    def called(
        *args: Any, keys: tuple[EpisodeId, ...], file: str | None, **given: Any
    ) -> None:
        listed = () if file is None else read_rows(file, _from_line)
        function(*args, episodes=(*keys, *listed), **given)

    return called


def some(episodes: tuple[EpisodeId, ...]) -> tuple[EpisodeId, ...]:
    """Insist that episodes were named.

    Raises:
        click.UsageError: There are none.
    """
    if not episodes:
        raise click.UsageError("name the episodes with --episode or --episodes")
    return episodes


def _episodes(_: object, __: object, keys: tuple[str, ...]) -> tuple[EpisodeId, ...]:
    try:
        return tuple(EpisodeId.from_capture_key(key) for key in keys)
    except SchemaError as error:
        raise click.BadParameter(str(error)) from error


def _from_line(line: bytes) -> EpisodeId:
    return EpisodeId.from_capture_key(line.decode("utf-8", "replace").strip())
