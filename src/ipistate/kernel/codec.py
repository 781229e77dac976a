"""The way into JSON text and out of it, for storage and HTTP: ``decode``, ``encode``.

``decode`` never loses a digit and never accepts what could not be written again;
``encode`` is total on every ``JsonValue``.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import orjson

from ipistate.errors import (
    BottomlessError,
    DecodeError,
    EncodeError,
    IpiStateError,
)
from ipistate.kernel.exact import parse_exactly
from ipistate.kernel.limits import MAX_DEPTH, TOO_DEEP, is_array, is_object
from ipistate.kernel.spelling import dumps, spelled
from ipistate.kernel.values import (
    JsonArray,
    JsonObject,
    JsonValue,
    fill_array,
    fill_object,
    freeze,
    thaw,
)


if TYPE_CHECKING:
    from collections.abc import Callable, Collection

T = TypeVar("T")
Adopt: TypeAlias = "Callable[[Any], JsonValue]"

# orjson reads every integer beyond 64 bits as a float of at least this size.
_INEXACT: Final = 2.0**63

_CONTAINERS: Final = frozenset((dict, list, JsonObject, JsonArray))


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
    """Parse a JSON text and build a value from a plain tree that is not used elsewhere.

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
            raise BottomlessError("too_deep", TOO_DEEP) from None
    try:
        return build(parse_exactly(data), freeze)
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
    return DecodeError("too_deep", TOO_DEEP)


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
        return dumps(value)
    except TypeError:
        return spelled(value)


def encode_checked(value: JsonObject | JsonArray) -> bytes:
    """Write a container as ``encode`` does, and refuse what was forced into it.

    ``dict.__setitem__`` goes past a frozen object, and ``encode`` writes NaN as ``null``
    then. Looking for that takes as long as writing, so hot paths leave it out.

    Raises:
        EncodeError: ``not_finite``, with the path.
    """
    text = encode(value)
    if b"null" in text and not _finite(value):
        freeze(thaw(value))  # raises with the path
    return text


def _finite(value: JsonObject | JsonArray) -> bool:
    containers: list[Any] = [value]
    for container in containers:
        parts: Collection[Any] = (
            container.values() if is_object(container) else container
        )
        kinds = set(map(type, parts))
        # Most objects have nothing to look into, and this tells it without a loop.
        if float in kinds and not all(map(isfinite, filter(_is_float, parts))):
            return False
        if not kinds.isdisjoint(_CONTAINERS):
            containers += [part for part in parts if isinstance(part, (dict, list))]
    return True


def _is_float(value: Any) -> bool:
    return isinstance(value, float)
