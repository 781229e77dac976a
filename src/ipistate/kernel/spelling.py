"""The text of a value, defined here and not by a dependency.

Ids and checkpoints are made of this text, so it must be the same for ever. ``orjson``
writes it many times faster and is trusted with it only if it passes a test at import.
"""

from __future__ import annotations

from json import encoder as _stdlib
from typing import TYPE_CHECKING, Any, Final

import orjson

from ipistate.errors import EncodeError
from ipistate.kernel.limits import checked_number, is_array, is_object
from ipistate.kernel.values import freeze, thaw


if TYPE_CHECKING:
    from collections.abc import Callable

_escape: Final[Callable[[str], str]] = _stdlib.encode_basestring

_SMALLEST_DECIMAL: Final = -5
"""Exponent of the smallest numbers that are written without one: ``0.00001``."""

# Both sides of each border: exponent or not, few digits or 17, a power of two (its
# neighbours are not equally far), the smallest and the largest numbers.
_NUMBERS: Final = (
    *(0.0, -0.0, 1.0, -1.5, 0.1, 0.3, 1 / 3, 2 / 3, 5e-324, 2.2250738585072014e-308),
    *(1e-7, 1e-6, 9.999999999999999e-6, 1e-5, 1.5e-5, 9.5367431640625e-7, 1e-4),
    *(1e15, 9999999999999998.0, 1e16, 1.5e16, 123456789012345680.0, 1e17, 1e21, 1e22),
    *(9007199254740992.0, 9007199254740994.0, 2.0**63, 2.0**64, 2.0**-44, 1e23, 1e100),
    *(8.41e21, 4.4501477170144023e-308, 1.7976931348623157e308, -1e-10, -1e300),
    *(0, -1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)),
)
_TEXTS: Final = (
    "".join(map(chr, range(0x100))),
    "\u2028\u2029\ufeff\ufffe\uffff\U0001f600\U0010ffff/",
)
_PROBE: Final[list[Any]] = [
    *_NUMBERS,
    *_TEXTS,
    *(True, False, None, [], {}, [[]], {"": {}}),
    {text: [{"b": 1.0}] for text in _TEXTS},
]


def spelled(value: Any) -> bytes:
    """Write a value as compact UTF-8 JSON, slowly: the text that ``encode`` promises.

    Raises:
        EncodeError: Something was forced into the value that is not JSON.
    """
    pieces: list[str] = []
    try:
        _spell(value, pieces.append)
    except (EncodeError, TypeError):
        freeze(thaw(value))  # raises with the path
        raise
    # An unpaired surrogate in Python's backslash form is also its JSON escape.
    return "".join(pieces).encode("utf-8", "backslashreplace")


def _spell(value: Any, put: Callable[[str], None]) -> None:
    if is_object(value):
        put("{")
        for position, (name, member) in enumerate(value.items()):
            put("," if position else "")
            put(_escape(name))
            put(":")
            _spell(member, put)
        put("}")
    elif is_array(value):
        put("[")
        for position, element in enumerate(value):
            put("," if position else "")
            _spell(element, put)
        put("]")
    else:
        put(_scalar(value))


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _escape(value)
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true" if value else "false"
    number = checked_number(value, ())
    return spelled_float(number) if isinstance(number, float) else str(number)


def spelled_float(number: float) -> str:
    """Write a finite float: the shortest digits that read back as the same number.

    From 1e16 on and below 1e-5 with an exponent, which has a sign and no leading zeros.
    """
    text = repr(number)
    mantissa, mark, power = text.partition("e")
    if not mark:
        return text
    exponent = int(power)
    if exponent != _SMALLEST_DECIMAL:
        return f"{mantissa}e{exponent:+d}"
    digits = mantissa.lstrip("-").replace(".", "")
    return f"{'-' if number < 0 else ''}0.0000{digits}"


def agrees(fast: Callable[[Any], bytes]) -> bool:
    """Tell whether a fast writer writes what ``spelled`` does."""
    return fast(_PROBE) == spelled(_PROBE)


WRITES_FAST: Final = agrees(orjson.dumps)
"""Whether values are written by ``orjson``; if not, the same text takes far longer."""

dumps: Final[Callable[[Any], bytes]] = orjson.dumps if WRITES_FAST else spelled
"""The writer. Raises ``TypeError`` where only ``spelled`` can write a value."""
