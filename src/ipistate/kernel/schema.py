"""Strict conversion between JSON documents and attrs records.

cattrs would turn ``"3"`` into 3 and ``None`` into ``"None"``; here a value either has
the declared type or is reported with its path, together with every other problem.

A record class is *closed* (an unknown member is a problem) unless it has a field named
``extra`` of type ``JsonObject``, which then takes the unknown members in their order.
A field ``member_order`` of type ``tuple[str, ...]`` takes the names of all members as
the document had them, so that ``unstructure`` gives the document back.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args, get_origin

import attrs

from cattrs import Converter
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, override

from ipistate.errors import (
    MAX_PROBLEMS,
    EncodeError,
    Problem,
    SchemaError,
    json_path,
    preview,
)
from ipistate.kernel.environment import Environment
from ipistate.kernel.limits import is_array, is_object
from ipistate.kernel.values import (
    JsonObject,
    JsonValue,
    freeze,
    trusted_object,
)


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ipistate.kernel.codec import Adopt

T = TypeVar("T")


class _Mismatch(ValueError):
    """A value that is not of the declared type."""

    def __init__(self, code: str, message: str, value: object) -> None:
        super().__init__(message)
        self.problem = (code, message, preview(value))


def structure(document: object, record: type[T]) -> T:
    """Build an attrs record from a JSON document without coercing anything.

    Raises:
        SchemaError: ``wrong_type``, ``missing_member``, ``unknown_member`` or a code of
            the record's own validators; ``problems`` lists them, up to
            ``MAX_PROBLEMS``.
    """
    try:
        return _converter.structure(document, record)
    except Exception as error:
        SchemaError.raise_for(_problems(error, ()))
        raise


def adopt_members(tree: Any, adopt: Adopt) -> object:
    """Freeze the members of a wrapper one by one, each with the full depth to itself.

    For ``decode_as``; what is not an object is left to ``structure`` to refuse.
    """
    if not is_object(tree):
        return adopt(tree)
    return {name: adopt(member) for name, member in tree.items()}


def refuse(
    code: str, message: str, value: object, field: attrs.Attribute[Any]
) -> SchemaError:
    """Make the error that a field's validator raises, with the field as its path."""
    return SchemaError(code, message, json_path([field.name]), preview(value))


def unstructure(record: object) -> JsonObject:
    """Write a record as a JSON object, its members in declaration order.

    The members of an ``extra`` field stand last, in their own order. A record with a
    ``member_order`` is written in that order, without the optional members that the
    document lacked and that still have their default.
    """
    members: dict[str, Any] = attrs.asdict(record, recurse=False)  # type: ignore[arg-type]
    order: tuple[str, ...] = members.pop("member_order", ())
    extra = members.pop("extra", {})
    absent = _untouched(record).difference(order) if order else set[str]()
    shown = {n: _unstructured(m) for n, m in members.items() if n not in absent}
    whole = {**shown, **extra}
    ordered = {name: whole[name] for name in order if name in whole} | whole
    # Each member has the full depth to itself, as when it was read.
    return trusted_object({name: freeze(member) for name, member in ordered.items()})


def _untouched(record: Any) -> set[str]:
    fields = attrs.fields(record.__class__)
    return {f.name for f in fields if getattr(record, f.name) == f.default}


def _unstructured(value: Any) -> Any:
    if isinstance(value, Environment):
        return value.document
    if attrs.has(value.__class__):
        return unstructure(value)
    if value.__class__ is tuple:
        return [_unstructured(element) for element in value]
    return value


def _problems(error: BaseException, path: tuple[str | int, ...]) -> Iterator[Problem]:
    if isinstance(error, ClassValidationError):
        members, whole = error.group_exceptions()
        for cause, member in members:
            yield from _problems(cause, (*path, member.name))
        for cause in whole:
            yield from _problems(cause, path)
    else:
        for problem in _own_problems(error):
            yield attrs.evolve(problem, path=json_path(path) + problem.path[1:])


def _own_problems(error: BaseException) -> Iterator[Problem]:
    if isinstance(error, ForbiddenExtraKeysError):
        for name in sorted(error.extra_fields):
            yield Problem(
                "unknown_member", json_path([name]), f"unknown member {name!a}"
            )
    elif isinstance(error, _Mismatch):
        code, message, shown = error.problem
        yield Problem(code, "$", message, shown)
    elif isinstance(error, SchemaError):
        yield from error.problems
    elif isinstance(error, EncodeError):
        yield Problem(error.code, error.path, error.message, error.preview)
    elif isinstance(error, KeyError):
        yield Problem("missing_member", "$", "required member is missing")


def _exactly(name: str, *kinds: type) -> Callable[[Any, Any], Any]:
    def hook(value: Any, _: object) -> object:
        if type(value) in kinds:
            return value
        raise _Mismatch("wrong_type", f"expected {name}", value)

    return hook


def _object(value: Any, _: object = None) -> JsonObject:
    if is_object(value):
        return freeze(value)  # type: ignore[return-value]
    raise _Mismatch("wrong_type", "expected an object", value)


def _array_factory(kind: Any) -> Callable[[Any, Any], tuple[Any, ...]]:
    element = get_args(kind)[0]

    def hook(value: Any, _: object) -> tuple[Any, ...]:
        if not is_array(value):
            raise _Mismatch("wrong_type", "expected an array", value)
        try:
            return tuple([structured(part, element) for part in value])
        except Exception:
            wrong = _element_problems(value, lambda part: structured(part, element))
            SchemaError.raise_for(wrong)
            raise

    structured = _converter.get_structure_hook(element)
    return hook


def _element_problems(
    array: list[Any], structured: Callable[[Any], object]
) -> Iterator[Problem]:
    for index, part in enumerate(array):
        try:
            structured(part)
        except Exception as error:  # noqa: BLE001 - reported as a problem or raised again
            yield from _problems(error, (index,))


def _record_factory(record: Any) -> Callable[[Any, Any], Any]:
    names = {field.name for field in attrs.fields(record)} - {"member_order"}
    ordered = names != {field.name for field in attrs.fields(record)}
    left_out: Any = {"member_order": override(omit=True)} if ordered else {}
    fill = make_dict_structure_fn(
        record, _converter, _cattrs_forbid_extra_keys=True, **left_out
    )

    def hook(value: Any, kind: Any) -> Any:
        if not is_object(value):
            raise _Mismatch("wrong_type", "expected an object", value)
        gather = _gathered if "extra" in names else _bounded
        new = fill(gather(value, names), kind)
        return attrs.evolve(new, member_order=tuple(value)) if ordered else new

    return hook


def _gathered(members: dict[str, Any], names: set[str]) -> dict[str, Any]:
    known = {n: member for n, member in members.items() if n in names - {"extra"}}
    return known | {"extra": {n: m for n, m in members.items() if n not in known}}


def _bounded(members: dict[str, Any], names: set[str]) -> dict[str, Any]:
    # cattrs reports all unknown members, however many there are.
    if len(members) <= len(names) + MAX_PROBLEMS:
        return members
    unknown = islice((n for n in members if n not in names), MAX_PROBLEMS)
    kept = names.intersection(members).union(unknown)
    return {name: members[name] for name in kept}


def _is_array(kind: Any) -> bool:
    return get_origin(kind) is tuple


_converter: Final = Converter(detailed_validation=True)
_converter.register_structure_hook(str, _exactly("a string", str))
_converter.register_structure_hook(bool, _exactly("a boolean", bool))
_converter.register_structure_hook(int, _exactly("an integer", int))
_converter.register_structure_hook(float, _exactly("a number", int, float))
_converter.register_structure_hook(JsonObject, _object)
_converter.register_structure_hook(
    Environment, lambda value, _: Environment(_object(value))
)
_converter.register_structure_hook_func(
    lambda kind: kind == JsonValue, lambda value, _: freeze(value)
)
_converter.register_structure_hook_factory(_is_array, _array_factory)
_converter.register_structure_hook_factory(attrs.has, _record_factory)
