"""The only way in and out of JSON text: ``decode``, ``encode`` and ``render``.

``decode`` never loses a digit and never accepts what could not be written again;
``encode`` is total on every ``JsonValue``; ``render`` is the text a model reads.
"""

from __future__ import annotations

import json

from json import encoder as _stdlib
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import orjson

from ipistate.errors import (
    BottomlessError,
    DecodeError,
    EncodeError,
    IpiStateError,
    preview,
)
from ipistate.kernel.values import (
    MAX_DEPTH,
    MAX_INTEGER_DIGITS,
    JsonArray,
    JsonObject,
    JsonValue,
    fill_array,
    fill_object,
    freeze,
    is_array,
    is_object,
)


if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
Adopt: TypeAlias = "Callable[[Any], JsonValue]"

# orjson reads every integer beyond 64 bits as a float of at least this size.
_INEXACT: Final = 2.0**63
_TOO_DEEP: Final = f"more than {MAX_DEPTH} levels of nesting"
_UNREADABLE_INTEGER: Final[int] = 10**MAX_INTEGER_DIGITS
_LONG_TEXT: Final = 512


class _Inexact(Exception):
    """A float that may have been an integer: only the exact parser can tell."""


def decode(data: bytes | bytearray | memoryview | str) -> JsonValue:
    """Read one JSON text strictly and return it frozen.

    Integers of any size up to 4,300 digits are exact; unpaired surrogates are kept;
    of duplicate keys the last value stands at the first position.

    Raises:
        DecodeError: ``not_utf8``, ``syntax``, ``not_finite``, ``integer_too_large``
            or ``too_deep`` (more than ``MAX_DEPTH`` levels), with a path where one is
            known.
    """
    return decode_as(data, lambda tree, adopt: adopt(tree))


def decode_as(
    data: bytes | bytearray | memoryview | str, build: Callable[[Any, Adopt], T]
) -> T:
    """Parse a JSON text and build a value from the plain tree, which nobody else holds.

    ``build(tree, adopt)`` passes the parts it wants to keep to ``adopt``, which consumes
    them and returns them frozen. All numbers it sees are exact in the end: if one may
    not be, ``build`` runs again on a tree from a slower parser, so it must be pure.

    Raises:
        DecodeError: As ``decode``.
    """
    try:
        return _build_fast(orjson.loads(data), build)
    except _Inexact:
        pass
    except orjson.JSONDecodeError as error:
        if "depth" in error.msg:
            # The fast parser follows 1,024 levels, and the exact one need not try.
            raise BottomlessError("too_deep", _TOO_DEEP) from None
    try:
        return build(_parse_exactly(data), freeze)
    except EncodeError as error:
        raise DecodeError(
            error.code, error.message, error.path, error.preview
        ) from None


def _build_fast(tree: Any, build: Callable[[Any, Adopt], T]) -> T:
    adopted: set[int] = set()

    def adopt(part: Any) -> JsonValue:
        adopted.add(id(part))
        return _adopt(part)

    try:
        value = build(tree, adopt)
    except IpiStateError:
        # It may be about a number that was not read exactly.
        _check_rest(tree, adopted)
        raise
    _check_rest(tree, adopted)
    return value


def _check_rest(tree: Any, adopted: set[int]) -> None:
    # What was adopted has been checked, and is known by its identity.
    if tree.__class__ is float:
        _check_exact(tree)
    elif id(tree) not in adopted and (is_object(tree) or is_array(tree)):
        for part in tree.values() if is_object(tree) else tree:
            if part.__class__ is not str:
                _check_rest(part, adopted)


def _adopt(tree: Any) -> JsonValue:
    # Reuses the parts of a tree fresh from the fast parser.
    kind = tree.__class__
    if kind is dict:
        return _adopt_object(tree, 1)
    if kind is list:
        return _adopt_array(tree, 1)
    if kind is float:
        _check_exact(tree)
    return tree  # type: ignore[no-any-return]


def _adopt_object(tree: dict[str, Any], level: int) -> JsonObject:
    # The hot loop of every seed and restore: strings first, because most members are,
    # and the work of trusted_object without the call.
    if level > MAX_DEPTH:
        raise _too_deep()
    for name, member in tree.items():
        kind = member.__class__
        if kind is str or kind is int:
            continue
        if kind is dict:
            tree[name] = _adopt_object(member, level + 1)
        elif kind is list:
            tree[name] = _adopt_array(member, level + 1)
        elif kind is float and not -_INEXACT < member < _INEXACT:
            raise _Inexact
    new = dict.__new__(JsonObject)
    fill_object(new, tree)
    return new


def _adopt_array(tree: list[Any], level: int) -> JsonArray:
    if level > MAX_DEPTH:
        raise _too_deep()
    for index, element in enumerate(tree):
        kind = element.__class__
        if kind is str:
            continue
        if kind is dict:
            tree[index] = _adopt_object(element, level + 1)
        elif kind is list:
            tree[index] = _adopt_array(element, level + 1)
        elif kind is float and not -_INEXACT < element < _INEXACT:
            raise _Inexact
    new = list.__new__(JsonArray)
    fill_array(new, tree)
    return new


def _check_exact(number: float) -> None:
    if not -_INEXACT < number < _INEXACT:
        raise _Inexact


def _too_deep() -> DecodeError:
    return DecodeError("too_deep", _TOO_DEEP)


def _parse_exactly(data: bytes | bytearray | memoryview | str) -> Any:
    text = data if isinstance(data, str) else _utf8(bytes(memoryview(data)))
    refused: list[object] = []

    def integer(digits: str) -> int:
        if len(digits.lstrip("-")) <= MAX_INTEGER_DIGITS:
            return int(digits)
        refused.append(_UNREADABLE_INTEGER)
        return _UNREADABLE_INTEGER

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
        raise _too_deep() from None
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


def encode(value: JsonValue) -> bytes:
    """Write a value as compact UTF-8 JSON: key order kept, no spaces.

    The text of a part does not depend on its surroundings. Unpaired surrogates are
    written as escapes, integers beyond 64 bits in full.

    Raises:
        EncodeError: A plain Python value that is not JSON; never for frozen values.
    """
    if value.__class__ is not JsonObject and value.__class__ is not JsonArray:
        value = freeze(value)
    try:
        return orjson.dumps(value)
    except TypeError:
        pieces: list[bytes] = []
        _write(value, pieces.append)
        return b"".join(pieces)


def _write(value: JsonValue, put: Callable[[bytes], None]) -> None:
    # For what orjson refuses; scalars alone still go through it, for one spelling.
    if isinstance(value, dict):
        put(b"{")
        for position, (name, member) in enumerate(value.items()):
            put(b"," if position else b"")
            put(_scalar(name))
            put(b":")
            _write(member, put)
        put(b"}")
    elif isinstance(value, list):
        put(b"[")
        for position, element in enumerate(value):
            put(b"," if position else b"")
            _write(element, put)
        put(b"]")
    else:
        put(_scalar(value))


def _scalar(value: JsonValue) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        # An unpaired surrogate in Python's backslash form is also its JSON escape.
        text = json.dumps(value, ensure_ascii=False)
        return text.encode("utf-8", "backslashreplace")


_escape: Final[Callable[[str], str]] = _stdlib.encode_basestring_ascii
_refuse: Final[Callable[[object], object]] = json.JSONEncoder().default


# json.dumps makes this object anew for every call, with a cycle check that frozen
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
        return _whole(dict(value))
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
    render(first)
    # The stdlib's encoder goes through an exact dict faster than through a subclass.
    return _whole([dict(e) if isinstance(e, JsonObject) else e for e in value])


def _texts(value: JsonArray) -> list[str]:
    try:
        return [element.text_memo for element in value]  # type: ignore[union-attr]
    except AttributeError:
        return [render(element) for element in value]


def _render_text(text: str) -> str:
    # orjson escapes as json.dumps does, many times faster, if all of it is ASCII.
    if len(text) > _LONG_TEXT and text.isascii() and "\x7f" not in text:
        return orjson.dumps(text).decode()
    return _escape(text)
