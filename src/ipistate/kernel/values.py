"""Immutable JSON values that ``orjson`` and ``json`` still write at C speed.

``JsonObject`` keeps insertion order and ``JsonArray`` prints and compares as a list
does. Both are built from checked values only, so whoever holds one knows that every
part of it is JSON, finite, and shared with nobody who could change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import copysign
from typing import (
    Any,
    ClassVar,
    Final,
    NoReturn,
    Self,
    SupportsIndex,
    TypeAlias,
    TypeGuard,
    cast,
    overload,
)

from ipistate.errors import EncodeError, ImmutableError, json_path, preview


MAX_DEPTH: Final = 200
"""Containers inside one another that a value may have (``[[1]]`` has two)."""

MAX_INTEGER_DIGITS: Final = 4300
"""Decimal digits of the longest integer (CPython's own default limit)."""

_INTEGER_BOUND: Final = 10**MAX_INTEGER_DIGITS
_INFINITY: Final = float("inf")
_CONTAINERS: Final = (dict, list)

# The mutators of the base classes, for the moment before a container is handed out.
fill_object: Final[Callable[[dict[str, Any], Mapping[str, Any]], None]] = dict[
    str, Any
].update
fill_array: Final[Callable[[list[Any], Iterable[Any]], None]] = list[Any].extend
_set_member: Final[Callable[[dict[str, Any], str, Any], None]] = dict[
    str, Any
].__setitem__
_set_element: Final[Callable[[list[Any], int, Any], None]] = list[Any].__setitem__
_append: Final[Callable[[list[Any], Any], None]] = list[Any].append


_Refusing: TypeAlias = Callable[..., NoReturn]


def _refuse(self: object, *_args: object, **_kwargs: object) -> NoReturn:
    kind = type(self).__name__
    raise ImmutableError(
        "immutable", f"{kind} is immutable; thaw() gives a copy that can be changed"
    )


class JsonObject(dict[str, "JsonValue"]):
    """An immutable JSON object: an insertion-ordered ``dict`` without its mutators.

    Args:
        members: A mapping, or pairs, of names to JSON values. Checked and frozen.

    Raises:
        EncodeError: A name or a value is not JSON; the error names its path.
        TypeError: ``members`` is neither a mapping nor pairs (as for ``dict``).
    """

    # Filled by codec.render; a memo of a pure function, so sharing it is harmless.
    __slots__ = ("text_memo",)

    text_memo: str

    def __new__(cls, members: Mapping[str, object] | Iterable[Any] = ()) -> Self:
        new: Self = dict.__new__(cls)
        fill_object(new, _frozen_members(dict(members), (), 1))
        return new

    def __init__(self, members: Mapping[str, object] | Iterable[Any] = ()) -> None:
        """Do nothing: the object is complete, and calling this again changes nothing."""

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("JsonObject cannot be subclassed: it would not survive storage")

    __setitem__: ClassVar[_Refusing] = _refuse
    __delitem__: ClassVar[_Refusing] = _refuse
    __ior__: ClassVar[_Refusing] = _refuse
    clear: ClassVar[_Refusing] = _refuse
    pop: ClassVar[_Refusing] = _refuse
    popitem: ClassVar[_Refusing] = _refuse
    setdefault: ClassVar[_Refusing] = _refuse
    update: ClassVar[_Refusing] = _refuse

    def __or__(self, other: Any) -> JsonObject:  # type: ignore[override]
        if not is_object(other):
            return NotImplemented
        return JsonObject({**self, **other})

    def __ror__(self, other: Any) -> JsonObject:  # type: ignore[override]
        if not is_object(other):
            return NotImplemented
        return JsonObject({**other, **self})

    def __hash__(self) -> int:  # type: ignore[override]
        # Equal objects may differ in order, so the hash must not depend on it.
        return hash(frozenset(self.items()))

    def copy(self) -> Self:
        """Return the object itself: it cannot change."""
        return self

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Callable[..., JsonObject], tuple[object]]:
        # What was checked once is not checked again for every world that shares it.
        return trusted_object, (dict(self),)


class JsonArray(list["JsonValue"]):
    """An immutable JSON array: a ``list`` without its mutators.

    A list and not a tuple, because ``[1] == (1,)`` is false and because replies show
    arrays as Python prints lists.

    Raises:
        EncodeError: An element is not JSON; the error names its path.
    """

    __slots__ = ("text_memo",)

    text_memo: str

    def __new__(cls, elements: Iterable[object] = ()) -> Self:
        new: Self = list.__new__(cls)
        fill_array(new, _frozen_elements(list(elements), (), 1))
        return new

    def __init__(self, elements: Iterable[object] = ()) -> None:
        """Do nothing: the array is complete, and calling this again changes nothing."""

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("JsonArray cannot be subclassed: it would not survive storage")

    __setitem__: ClassVar[_Refusing] = _refuse
    __delitem__: ClassVar[_Refusing] = _refuse
    __iadd__: ClassVar[_Refusing] = _refuse
    __imul__: ClassVar[_Refusing] = _refuse
    append: ClassVar[_Refusing] = _refuse
    extend: ClassVar[_Refusing] = _refuse
    insert: ClassVar[_Refusing] = _refuse
    remove: ClassVar[_Refusing] = _refuse
    pop: ClassVar[_Refusing] = _refuse
    clear: ClassVar[_Refusing] = _refuse
    sort: ClassVar[_Refusing] = _refuse
    reverse: ClassVar[_Refusing] = _refuse

    @overload
    def __getitem__(self, index: SupportsIndex) -> JsonValue: ...
    @overload
    def __getitem__(self, index: slice) -> JsonArray: ...
    def __getitem__(self, index: SupportsIndex | slice) -> JsonValue | JsonArray:
        if isinstance(index, slice):
            return trusted_array(super().__getitem__(index))
        return super().__getitem__(index)

    def __add__(self, other: Any) -> JsonArray:  # type: ignore[override]
        if not is_array(other):
            return NotImplemented
        return JsonArray([*self, *other])

    def __mul__(self, count: SupportsIndex) -> JsonArray:
        return trusted_array(super().__mul__(count))

    def __rmul__(self, count: SupportsIndex) -> JsonArray:
        return self * count

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def copy(self) -> Self:
        """Return the array itself: it cannot change."""
        return self

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Callable[..., JsonArray], tuple[object]]:
        return trusted_array, (list(self),)


JsonValue: TypeAlias = bool | int | float | str | JsonArray | JsonObject | None


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Tell whether unchecked data is an object, its names assumed to be strings."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """Tell whether unchecked data is an array."""
    return isinstance(value, list)


def trusted_object(members: Mapping[str, JsonValue]) -> JsonObject:
    """Freeze a shallow mapping whose values are frozen already; checks nothing."""
    new = dict.__new__(JsonObject)
    fill_object(new, members)
    return new


def trusted_array(elements: Iterable[JsonValue]) -> JsonArray:
    """Freeze a shallow iterable whose elements are frozen already; checks nothing."""
    new = list.__new__(JsonArray)
    fill_array(new, elements)
    return new


def with_member(
    members: Mapping[str, JsonValue], name: str, value: JsonValue
) -> JsonObject:
    """Copy an object of frozen values with one member set.

    A name that is there keeps its position, a new one goes last.
    """
    new = dict.__new__(JsonObject)
    fill_object(new, members)
    _set_member(new, name, value)
    return new


def with_members(
    members: Mapping[str, JsonValue], changes: Mapping[str, JsonValue]
) -> JsonObject:
    """Copy an object of frozen values with several members set, one after another."""
    new = dict.__new__(JsonObject)
    fill_object(new, members)
    fill_object(new, changes)
    return new


def with_element(
    elements: Iterable[JsonValue], index: int, value: JsonValue
) -> JsonArray:
    """Copy an array of frozen values with the element at a valid index set."""
    new = list.__new__(JsonArray)
    fill_array(new, elements)
    _set_element(new, index, value)
    return new


def with_addition(elements: Iterable[JsonValue], value: JsonValue) -> JsonArray:
    """Copy an array of frozen values with one more at its end."""
    new = list.__new__(JsonArray)
    fill_array(new, elements)
    _append(new, value)
    return new


def freeze(value: object) -> JsonValue:
    """Turn plain Python JSON data into an immutable value that shares nothing with it.

    Accepts exactly ``None``, ``bool``, ``int``, ``float``, ``str``, ``list``,
    ``tuple``, ``dict`` and the frozen containers. Subclasses are refused rather than
    flattened, because they would come back from storage as something else.

    Raises:
        EncodeError: ``unsupported_type``, ``key_not_string``, ``not_finite``,
            ``integer_too_large`` or ``too_deep``, with the path of the value.
    """
    kind: Any = value.__class__
    if kind is JsonObject or kind is JsonArray:
        return cast("JsonValue", value)
    return _frozen(value, (), 1)


def as_json(value: Any) -> JsonValue:
    """Freeze a value unless a look at its type shows that it is frozen: for hot paths.

    Raises:
        EncodeError: As ``freeze``.
    """
    return value if value.__class__ in _FROZEN else freeze(value)


def thaw(value: JsonValue) -> Any:
    """Return a plain, mutable copy (``dict``, ``list``) of a JSON value."""
    if isinstance(value, dict):
        return {name: thaw(member) for name, member in value.items()}
    if isinstance(value, list):
        return [thaw(element) for element in value]
    return value


def identical(left: JsonValue, right: JsonValue) -> bool:
    """Tell whether two JSON values encode to the same text.

    Stricter than ``==``: key order counts, ``1``, ``1.0`` and ``True`` differ, and so
    do ``0.0`` and ``-0.0``. Frozen and plain containers of equal content are the same.
    """
    if left is right:
        return True
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(
            map(identical, left.values(), right.values())
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(identical, left, right))
    if type(left) is not type(right) or left != right:
        return False
    return not isinstance(left, float) or copysign(1, left) == copysign(1, right)  # type: ignore[arg-type]


def whole_text(text: str) -> str:
    """Join a high and a low surrogate that stand together into their one character.

    Written as JSON they are that character, so keeping them apart would not survive
    storage. Unpaired surrogates stay.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        units = text.encode("utf-16-le", "surrogatepass")
        return units.decode("utf-16-le", "surrogatepass")
    return text


def depth(value: JsonValue) -> int:
    """Count the containers inside one another: 0 for a scalar, 2 for ``[[1]]``."""
    if isinstance(value, dict):
        parts: Iterable[JsonValue] = value.values()
    elif isinstance(value, list):
        parts = value
    else:
        return 0
    deepest = 0
    for part in parts:
        if part.__class__ is not str and isinstance(part, _CONTAINERS):
            deepest = max(deepest, depth(part))
    return deepest + 1


def check_depth(value: JsonValue) -> None:
    """Refuse a value that unchecked operations have nested too deeply.

    Raises:
        EncodeError: ``too_deep``.
    """
    if depth(value) > MAX_DEPTH:
        raise _too_deep(())


_Path: TypeAlias = tuple[str | int, ...]


def _frozen(value: Any, path: _Path, level: int) -> JsonValue:
    kind: Any = value.__class__
    if kind is str:
        return whole_text(value)
    if kind is bool or value is None:
        return cast("JsonValue", value)
    if kind is dict:
        return trusted_object(_frozen_members(value, path, level))
    if kind is list or kind is tuple:
        return trusted_array(_frozen_elements(value, path, level))
    if kind is JsonObject or kind is JsonArray:
        return _shared(value, path, level)
    return _frozen_number(value, path)


def _shared(value: JsonObject | JsonArray, path: _Path, level: int) -> JsonValue:
    # Its depth is within the limit, but it may stand below other containers.
    if level - 1 + depth(value) > MAX_DEPTH:
        raise _too_deep(path)
    return value


def _frozen_members(
    members: dict[Any, object], path: _Path, level: int
) -> dict[str, JsonValue]:
    if level > MAX_DEPTH:
        raise _too_deep(path)
    frozen: dict[str, JsonValue] = {}
    for name, member in members.items():
        if type(name) is not str:
            raise EncodeError(
                "key_not_string",
                f"object keys are strings, not {type(name).__name__}",
                json_path(path),
                preview(name),
            )
        frozen[whole_text(name)] = _frozen(member, (*path, name), level + 1)
    return frozen


def _frozen_elements(
    elements: Iterable[object], path: _Path, level: int
) -> list[JsonValue]:
    if level > MAX_DEPTH:
        raise _too_deep(path)
    frozen: list[JsonValue] = []
    for index, element in enumerate(elements):
        frozen.append(_frozen(element, (*path, index), level + 1))
    return frozen


def _frozen_number(value: object, path: _Path) -> JsonValue:
    if type(value) is int:
        if -_INTEGER_BOUND < value < _INTEGER_BOUND:
            return value
        code, message = "integer_too_large", f"over {MAX_INTEGER_DIGITS} digits"
    elif type(value) is float:
        if -_INFINITY < value < _INFINITY:
            return value
        code, message = "not_finite", "JSON has no NaN and no infinities"
    else:
        code = "unsupported_type"
        message = f"JSON cannot carry {type(value).__module__}.{type(value).__name__}"
    raise EncodeError(code, message, json_path(path), preview(value))


def _too_deep(path: _Path) -> EncodeError:
    return EncodeError(
        "too_deep", f"more than {MAX_DEPTH} levels of nesting", json_path(path[:8])
    )


_FROZEN: Final = frozenset((str, bool, type(None), JsonObject, JsonArray))

EMPTY_OBJECT: Final = JsonObject()
EMPTY_ARRAY: Final = JsonArray()
