"""Pure changes of a world: each returns a new one that shares all it did not touch.

A path names a collection, then a record, then deeper members. Reading follows the
building blocks of docs/reference/tools.md, section 3, whose names are given in each docstring.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipistate.kernel import (
    EMPTY_ARRAY,
    EMPTY_OBJECT,
    MAX_DEPTH,
    JsonArray,
    JsonObject,
    JsonValue,
    as_json,
    depth,
    derive_id,
    trusted_object,
    with_addition,
    with_element,
    with_member,
    with_members,
)
from ipistate.tools.semantics import (
    ABSENT,
    Refused,
    add,
    find,
    index_of,
    no_attribute,
    required,
    text,
    type_name,
)


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Change = tuple[JsonObject, JsonValue]
"""The new world and the reply: what every tool returns."""


def table(world: JsonObject, collection: str) -> JsonValue:
    """Return a collection, or an empty object if it is missing (``opt C``)."""
    return world.get(collection, EMPTY_OBJECT)


def need(world: JsonObject, collection: str) -> JsonValue:
    """Return a collection that must be there (``need C``)."""
    return required(world, collection)


def place(container: JsonValue, key: JsonValue, value: JsonValue) -> JsonValue:
    """Return a container with ``value`` under ``key`` (``C[k] = v``).

    A key that is there keeps its position, a new one goes last.

    Raises:
        EncodeError: ``value`` is not JSON; likewise in all functions that store.
    """
    if isinstance(container, dict):
        if isinstance(key, str):
            return with_member(container, key, as_json(value))
        raise Refused("TypeError", f"keys are strings, not {type_name(key)}")
    if isinstance(container, list):
        where = index_of(container, key, "list assignment index out of range")
        return with_element(container, where, as_json(value))
    shown = f"'{type_name(container)}' object does not support item assignment"
    raise Refused("TypeError", shown)


def push(container: JsonValue, value: JsonValue) -> JsonArray:
    """Return an array with one more element (``push C``)."""
    if isinstance(container, list):
        return with_addition(container, as_json(value))
    raise no_attribute(container, "append")


def with_collection(
    world: JsonObject, collection: str, content: JsonValue, put: JsonValue, level: int
) -> JsonObject:
    """Return a world with a changed collection.

    Args:
        world: The world before.
        collection: Its name; a new one becomes the last member.
        content: The changed collection.
        put: The part of it that is new, whose nesting is checked.
        level: How many containers stand above ``put``.
    """
    if level + depth(put) > MAX_DEPTH:
        raise Refused("ValueError", f"more than {MAX_DEPTH} levels of nesting")
    return with_member(world, collection, as_json(content))


def assign(row: JsonValue, members: Mapping[str, JsonValue]) -> JsonValue:
    """Return a record with fields set as given (``set rec.f v``)."""
    if members and isinstance(row, dict):
        return with_members(row, {n: as_json(value) for n, value in members.items()})
    for name, value in members.items():
        row = place(row, name, value)
    return row


def join(row: JsonValue, name: str, addition: JsonValue) -> JsonValue:
    """Return a record with a line added to a text field (``join rec.f v``)."""
    if not isinstance(row, dict):
        raise no_attribute(row, "get")
    old = row.get(name)
    return place(row, name, add(add(old, "\n"), addition) if old else addition)


def not_found(noun: str, key: JsonValue) -> JsonObject:
    """Make the reply of a reading tool that found no record."""
    return trusted_object({"error": f"{noun} {text(key)} not found."})


def look_up(container: JsonValue, key: JsonValue, noun: str) -> JsonValue:
    """Return a record, or the reply that says it is not there."""
    found = find(container, key)
    return not_found(noun, key) if found is ABSENT else found  # type: ignore[return-value]


def put_back(
    world: JsonObject, collection: str, key: JsonValue, row: JsonValue
) -> JsonObject:
    """Store the changed form of a record that was found under ``key``."""
    content = place(world.get(collection, EMPTY_OBJECT), key, row)
    return with_collection(world, collection, content, row, 2)


def revise(
    world: JsonObject,
    collection: str,
    key: JsonValue,
    change: Callable[[JsonValue], JsonValue],
) -> JsonObject | None:
    """Change one record of a table; None if it is not there (``find`` and ``set``)."""
    found = find(table(world, collection), key)
    if found is ABSENT:
        return None
    return put_back(world, collection, key, change(found))  # type: ignore[arg-type]


def update(
    world: JsonObject,
    where: tuple[str, str, JsonValue],
    members: Mapping[str, JsonValue],
    reply: str,
) -> Change:
    """Set fields of the record at ``(collection, noun, key)`` and reply."""
    collection, noun, key = where
    changed = revise(world, collection, key, lambda row: assign(row, members))
    if changed is None:
        return world, f"Error: {noun} {text(key)} not found."
    return changed, reply


def create(
    world: JsonObject, collection: str, id_form: tuple[str, str], members: JsonObject
) -> tuple[JsonObject, JsonObject]:
    """Store a new record under a derived id; returns the world and the record.

    Args:
        world: The world before.
        collection: The table; a missing one is created (``make C {}``, ``put``).
        id_form: The id's member name and prefix, such as ``("claim_id", "CL-")``.
        members: The record's other members, in order.
    """
    id_name, prefix = id_form
    content = world.get(collection, EMPTY_OBJECT)
    used = content if isinstance(content, dict) else EMPTY_OBJECT
    new_id = derive_id(prefix, members, collection, used, len(used))
    row = record(**{id_name: new_id, **members})
    changed = place(content, new_id, row)
    return with_collection(world, collection, changed, row, 2), row


def enlist(
    world: JsonObject, collection: str, id_form: tuple[str, str], members: JsonObject
) -> tuple[JsonObject, JsonObject]:
    """Append a new record with a derived id to an array (``make C []``, ``push``).

    Arguments and result are those of ``create``.
    """
    id_name, prefix = id_form
    content = world.get(collection)
    rows = content if isinstance(content, list) else EMPTY_ARRAY
    used = {text(row.get(id_name)) for row in rows if isinstance(row, dict)}
    new_id = derive_id(prefix, members, collection, used, len(rows))
    row = record(**{id_name: new_id, **members})
    return append(world, collection, row), row


def append(world: JsonObject, collection: str, row: JsonObject) -> JsonObject:
    """Add a record to an array; a missing one is created (``make C []``, ``push``)."""
    content = push(world.get(collection, EMPTY_ARRAY), row)
    return with_collection(world, collection, content, row, 2)


def given(**members: JsonValue) -> dict[str, JsonValue]:
    """Keep the arguments that were given: null counts as absent (section 2.2)."""
    return {name: value for name, value in members.items() if value is not None}


def truthy(**members: JsonValue) -> dict[str, JsonValue]:
    """Keep the arguments that are truthy."""
    return {name: value for name, value in members.items() if value}


def record(**members: JsonValue) -> JsonObject:
    """Build a record; its members stand in the order of the arguments."""
    return trusted_object({name: as_json(value) for name, value in members.items()})
