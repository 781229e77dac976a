"""The process's standard streams: open, and able to take any text."""

from __future__ import annotations

import io
import os
import sys

from typing import TextIO


def open_closed_streams() -> None:
    """Open the standard streams that are closed, so that their use fails in good order.

    No other file is to get their numbers. Notes that cannot be read are no failure.
    """
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_WRONLY))
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def prepare_streams() -> None:
    """Let characters that an output's encoding lacks be written as escapes.

    A terminal or a locale of another encoding than UTF-8 then ends no verb. JSON is
    written in UTF-8 whatever the encoding is.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def let_go(stream: TextIO) -> None:
    """Have what is left in a stream go nowhere: the interpreter flushes it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
