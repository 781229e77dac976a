"""The text that models read: exactly ``json.dumps(value)``, and made once."""

from __future__ import annotations

import json

from itertools import islice
from json import encoder as _stdlib
from typing import TYPE_CHECKING, Any, Final, cast

from ipistate.kernel.spelling import dumps
from ipistate.kernel.values import JsonArray, JsonObject, JsonValue, freeze


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LONG_TEXT: Final = 512
_BATCH: Final = 512

# The stdlib's encoder goes through an exact dict faster than through a subclass, even
# with the time for this copy.
_plain: Final[Callable[[Any], dict[str, JsonValue]]] = dict[str, Any].copy

_escape: Final[Callable[[str], str]] = _stdlib.encode_basestring_ascii
_refuse: Final[Callable[[object], object]] = json.JSONEncoder().default


# json.dumps makes this object again for every call, with a cycle check that frozen
# values do not need.
_chunks: Final[Callable[[JsonValue, int], tuple[str, ...]]] = cast(
    "Any", _stdlib
).c_make_encoder(None, _refuse, _escape, None, ": ", ", ", False, False, True)


def render(value: JsonValue) -> str:
    """Write a value as a model reads it: ``json.dumps(value)`` with its defaults.

    That is ``", "`` and ``": "`` between tokens, ASCII only, Python's float spelling.
    The text of a frozen container is kept with it, so it is made once.

    Raises:
        EncodeError: A plain Python value that is not JSON; never for frozen values.
    """
    if isinstance(value, JsonObject):
        text: str | None = getattr(value, "text_memo", None)
        if text is None:
            value.text_memo = text = _render_object(value)
        return text
    if isinstance(value, JsonArray):
        text = getattr(value, "text_memo", None)
        if text is None:
            value.text_memo = text = _render_array(value)
        return text
    return _render_text(value) if isinstance(value, str) else _whole(freeze(value))


def _whole(value: Any) -> str:
    return "".join(_chunks(value, 0))


def _render_object(value: JsonObject) -> str:
    if not _has_long_text(value):
        return _whole(_plain(value))
    members = [f"{_escape(name)}: {_part(member)}" for name, member in value.items()]
    return "{" + ", ".join(members) + "}"


def _has_long_text(value: JsonObject) -> bool:
    for member in value.values():
        if isinstance(member, str) and len(member) > _LONG_TEXT:
            return True
    return False


def _part(value: JsonValue) -> str:
    return _render_text(value) if isinstance(value, str) else _whole(value)


def _render_array(value: JsonArray) -> str:
    # Searches reply with the same records again and again, in new arrays. Keeping a text
    # for each costs more than writing all at once, so it begins with the second search:
    # the first one leaves a text with its first record only.
    first = value[0] if value else None
    if not isinstance(first, JsonObject):
        return _whole(value)
    if hasattr(first, "text_memo") or _has_long_text(first):
        return "[" + ", ".join(_texts(value)) + "]"
    return "[" + ", ".join([render(first), *_batches(value)]) + "]"


def _batches(value: JsonArray) -> Iterator[str]:
    # All but the first record. The copies of a batch are still in the processor's cache
    # when they are written, and freed before the garbage collector looks at them.
    rest: Iterator[Any] = islice(value, 1, None)
    while batch := [*islice(rest, _BATCH)]:
        try:
            yield _whole([*map(_plain, batch)])[1:-1]
        except TypeError:
            yield _whole(batch)[1:-1]


def _texts(value: JsonArray) -> list[str]:
    try:
        return [element.text_memo for element in value]  # type: ignore[union-attr]
    except AttributeError:
        return [render(element) for element in value]


def _render_text(text: str) -> str:
    # dumps escapes as json.dumps does, many times faster, if all of it is ASCII.
    if len(text) > _LONG_TEXT and text.isascii() and "\x7f" not in text:
        return dumps(text).decode()
    return _escape(text)
