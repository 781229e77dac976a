"""Immutable JSON values that ``orjson`` and ``json`` still write at C speed.

``JsonObject`` keeps insertion order and ``JsonArray`` prints and compares as a list
does. Both are built from checked values only, so every part
of one is JSON, finite, and cannot be changed by anyone who shares it.
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
    cast,
    overload,
)

from ipistate.errors import EncodeError, json_path, preview
from ipistate.kernel.immutable import Immutable, Refusing, refuse_change
from ipistate.kernel.limits import (
    MAX_DEPTH,
    Path,
    checked_number,
    depth,
    is_array,
    is_object,
    too_deep,
    whole_text,
)


# The mutators of the base classes, for the moment before a container is handed out.
fill_object: Final[Callable[[dict[str, Any], Mapping[str, Any]], None]] = dict[
    str, Any
].update
fill_array: Final[Callable[[list[Any], Iterable[Any]], None]] = list[Any].extend


class JsonObject(Immutable, dict[str, "JsonValue"]):
    """An immutable JSON object: an insertion-ordered ``dict`` without its mutators.

    Args:
        members: A mapping, or pairs, of names to JSON values. Checked and frozen.

    Raises:
        EncodeError: A name or a value is not JSON; the error names its path.
        TypeError: ``members`` is neither a mapping nor pairs (as for ``dict``).
    """

    # Filled by render(); a memo of a pure function, so sharing it is harmless.
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

    __setitem__: ClassVar[Refusing] = refuse_change
    __delitem__: ClassVar[Refusing] = refuse_change
    __ior__: ClassVar[Refusing] = refuse_change
    clear: ClassVar[Refusing] = refuse_change
    pop: ClassVar[Refusing] = refuse_change
    popitem: ClassVar[Refusing] = refuse_change
    setdefault: ClassVar[Refusing] = refuse_change
    update: ClassVar[Refusing] = refuse_change

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

    def __reduce__(self) -> tuple[Callable[..., JsonObject], tuple[object]]:
        # What was checked once is not checked again for every world that shares it.
        return trusted_object, (dict(self),)


class JsonArray(Immutable, list["JsonValue"]):
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

    __setitem__: ClassVar[Refusing] = refuse_change
    __delitem__: ClassVar[Refusing] = refuse_change
    __iadd__: ClassVar[Refusing] = refuse_change
    __imul__: ClassVar[Refusing] = refuse_change
    append: ClassVar[Refusing] = refuse_change
    extend: ClassVar[Refusing] = refuse_change
    insert: ClassVar[Refusing] = refuse_change
    remove: ClassVar[Refusing] = refuse_change
    pop: ClassVar[Refusing] = refuse_change
    clear: ClassVar[Refusing] = refuse_change
    sort: ClassVar[Refusing] = refuse_change
    reverse: ClassVar[Refusing] = refuse_change

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

    def __reduce__(self) -> tuple[Callable[..., JsonArray], tuple[object]]:
        return trusted_array, (list(self),)


JsonValue: TypeAlias = bool | int | float | str | JsonArray | JsonObject | None


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


def _frozen(value: Any, path: Path, level: int) -> JsonValue:
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
        # Its depth is within the limit, but it may stand below other containers.
        if level - 1 + depth(value) > MAX_DEPTH:
            raise too_deep(path)
        return cast("JsonValue", value)
    return cast("JsonValue", checked_number(value, path))


def _frozen_members(
    members: dict[Any, object], path: Path, level: int
) -> dict[str, JsonValue]:
    if level > MAX_DEPTH:
        raise too_deep(path)
    frozen: dict[str, JsonValue] = {}
    for name, member in members.items():
        if type(name) is not str:
            raise EncodeError(
                "key_not_string",
                f"object keys are strings, not {type(name).__name__}; write str(key)",
                json_path(path),
                preview(name),
            )
        frozen[whole_text(name)] = _frozen(member, (*path, name), level + 1)
    return frozen


def _frozen_elements(
    elements: Iterable[object], path: Path, level: int
) -> list[JsonValue]:
    if level > MAX_DEPTH:
        raise too_deep(path)
    frozen: list[JsonValue] = []
    for index, element in enumerate(elements):
        frozen.append(_frozen(element, (*path, index), level + 1))
    return frozen


_FROZEN: Final = frozenset((str, bool, type(None), JsonObject, JsonArray))

EMPTY_OBJECT: Final = JsonObject()
EMPTY_ARRAY: Final = JsonArray()
