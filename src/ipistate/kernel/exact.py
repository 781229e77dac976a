"""The slow parser: it loses no digit and says where a text is wrong."""

from __future__ import annotations

import json

from typing import Any

from ipistate.errors import DecodeError, preview
from ipistate.kernel.limits import INTEGER_BOUND, MAX_INTEGER_DIGITS, TOO_DEEP
from ipistate.kernel.values import freeze


def parse_exactly(data: bytes | bytearray | memoryview | str) -> Any:
    """Parse a JSON text to plain data with the standard library.

    Raises:
        DecodeError: ``not_utf8``, ``syntax`` or ``too_deep``.
        EncodeError: ``not_finite`` or ``integer_too_large``, with the path.
    """
    text = data if isinstance(data, str) else _utf8(bytes(memoryview(data)))
    refused: list[object] = []

    def integer(digits: str) -> int:
        if len(digits.lstrip("-")) <= MAX_INTEGER_DIGITS:
            return int(digits)
        refused.append(INTEGER_BOUND)
        return INTEGER_BOUND

    def number(literal: str) -> float:
        value = float(literal)
        if value in (float("inf"), float("-inf")):
            refused.append(value)
        return value

    def constant(token: str) -> float:
        refused.append(float(token))
        return float(token)

    try:
        tree = json.loads(
            text, parse_int=integer, parse_float=number, parse_constant=constant
        )
    except json.JSONDecodeError as error:
        shown = preview(text[error.pos :])
        raise DecodeError("syntax", str(error), preview=shown) from None
    except RecursionError:
        raise DecodeError("too_deep", TOO_DEEP) from None
    if refused:
        freeze(tree)  # raises with the path of what was refused, unless a
        freeze(refused[0])  # later member of the same name has replaced it
    return tree


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        shown = preview(data[error.start :])
        message = f"invalid UTF-8 at byte {error.start}"
        raise DecodeError("not_utf8", message, preview=shown) from None
