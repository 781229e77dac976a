"""``ipistate secret``: a random secret in a file that only its owner can read."""

from __future__ import annotations

import os
import secrets

from pathlib import Path
from typing import Final

import click

from ipistate.cli.exits import LEGEND, RefusedInputError, refusing
from ipistate.cli.terminal import note


BYTES: Final = 32
"""Of randomness in a secret; it is written as 43 letters, digits, ``-`` and ``_``."""


@click.command("secret", epilog=LEGEND)
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
def command(*, file: str) -> None:
    """Write a new random secret to FILE, which only its owner can read.

    For --cookie-secret-file and --checkpoint-token-file. A file that exists is left as
    it is. With - the secret goes to standard output.

    \b
      ipistate secret cookie-secret.txt
      ipistate serve --cookie-secret-file cookie-secret.txt
    """
    if file == "-":
        click.echo(_secret(), nl=False)
        return
    with refusing(file):
        try:
            write_secret(Path(file))
        except FileExistsError:
            message = f"{file}: the file exists, and what it has may be in use"
            raise RefusedInputError(message) from None
    note(f"ipistate: wrote a secret to {file}, mode 0600")


def _secret() -> str:
    return f"{secrets.token_urlsafe(BYTES)}\n"


def write_secret(path: Path) -> None:
    """Write a random secret to a new file, which only its owner can read.

    Raises:
        FileExistsError: There is one already.
        OSError: It cannot be written.
    """
    # Created with its mode: others could read a file whose mode is set afterwards.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(_secret())
