"""Secrets: from a file, or from an environment variable that is named."""

from __future__ import annotations

import logging
import os
import stat

from typing import TYPE_CHECKING, Final

import click

from ipistate.cli.exits import RefusedInputError
from ipistate.cli.files import read_file
from ipistate.cli.texts import shown


if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES: Final = 2**16
"""Bytes of a file with a secret; a longer one is something else."""

_log: Final = logging.getLogger(__name__)


def secret_of(file: Path | None, variable: str | None) -> str | None:
    """Read a secret from the one place that was given; None if there was none.

    Raises:
        click.UsageError: Both places were given.
        RefusedInputError: The place cannot be read, or is empty.
    """
    if file is not None and variable is not None:
        raise click.UsageError("give the checkpoint token by file or by name, not both")
    if file is not None:
        return secret_in(file)
    return None if variable is None else _named(variable)


def secret_in(file: Path) -> str:
    """Read a secret from a file, without the spaces and line ends around it.

    Raises:
        RefusedInputError: The file cannot be read, or is empty.
    """
    text = read_file(str(file), most=MAX_BYTES).decode("ascii", "replace").strip()
    if not text:
        raise RefusedInputError(f"{shown(str(file))}: the file has no secret")
    return text


def warn_of_readers(file: Path) -> None:
    """Log a warning if others than its owner can get at a file."""
    try:
        mode = stat.S_IMODE(file.stat().st_mode) if os.name == "posix" else 0
    except OSError:
        return  # a caller that waited for the ready line may have removed it
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        advice = "others than its owner can get at this secret; chmod 600"
        _log.warning("%s has mode %04o: %s", file, mode, advice)


def _named(variable: str) -> str:
    text = os.environ.get(variable, "").strip()
    if not text:
        raise RefusedInputError(f"the environment variable {variable} has no token")
    return text
