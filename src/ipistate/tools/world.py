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
    Absent,
    Refused,
    add,
    find,
    index_of,
    no_attribute,
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
    if collection in world:
        return world[collection]
    raise Refused("KeyError", f"'{collection}'")


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


def _storable(value: JsonValue, level: int) -> JsonValue:
    # Frozen, and not too deep below so many containers; texts are both.
    if value.__class__ is str:
        return value
    frozen = as_json(value)
    if level + depth(frozen) > MAX_DEPTH:
        raise Refused("ValueError", f"more than {MAX_DEPTH} levels of nesting")
    return frozen


def with_collection(
    world: JsonObject, collection: str, content: JsonValue, put: JsonValue, level: int
) -> JsonObject:
    """Return a world with a changed collection.

    Args:
        world: The world before.
        collection: Its name; a new one becomes the last member.
        content: The changed collection, frozen.
        put: The part of it that is new, whose nesting is checked.
        level: How many containers stand above ``put``.
    """
    _storable(put, level)
    return with_member(world, collection, content)


def assign(row: JsonValue, members: Mapping[str, JsonValue]) -> JsonValue:
    """Return a record of a table with fields set as given (``set rec.f v``)."""
    if not members:
        return row
    if isinstance(row, dict):
        return with_members(row, {n: _storable(v, 3) for n, v in members.items()})
    # Nothing else has fields, so the first one is refused.
    name, value = next(iter(members.items()))
    return place(row, name, value)


def join(row: JsonValue, name: str, addition: JsonValue) -> JsonValue:
    """Return a record's text field with a line added to it (``join rec.f v``)."""
    if not isinstance(row, dict):
        raise no_attribute(row, "get")
    old = row.get(name)
    if not old:
        return addition
    if isinstance(old, str) and isinstance(addition, str):
        # Both are whole, and the newline keeps them apart: nothing to check, one copy.
        return f"{old}\n{addition}"
    return add(add(old, "\n"), addition)


def not_found(noun: str, key: JsonValue) -> JsonObject:
    """Make the reply of a reading tool that found no record."""
    return trusted_object({"error": f"{noun} {text(key)} not found."})


def look_up(container: JsonValue, key: JsonValue, noun: str) -> JsonValue:
    """Return a record, or the reply that says it is not there."""
    found = find(container, key)
    return not_found(noun, key) if isinstance(found, Absent) else found


def put_back(
    world: JsonObject, collection: str, key: JsonValue, row: JsonValue
) -> JsonObject:
    """Store the changed form of a record that was found under ``key``."""
    content = place(world.get(collection, EMPTY_OBJECT), key, row)
    return with_collection(world, collection, content, row, 2)


def revise(
    world: JsonObject,
    where: tuple[str, str, JsonValue],
    change: Callable[[JsonValue], Mapping[str, JsonValue]],
    reply: str,
) -> Change:
    """Set the fields that ``change`` makes of a record, and reply (``find``, ``set``).

    Args:
        world: The world before.
        where: The record's collection, what it is called in replies, and its key.
        change: What is set, computed from the record.
        reply: The answer, unless the record is not there.
    """
    collection, noun, key = where
    content = world.get(collection, EMPTY_OBJECT)
    row = find(content, key)
    if isinstance(row, Absent):
        return world, f"Error: {noun} {text(key)} not found."
    # What stays of the record was measured when it came into the world.
    changed = place(content, key, assign(row, change(row)))
    return with_member(world, collection, changed), reply


def update(
    world: JsonObject,
    where: tuple[str, str, JsonValue],
    members: Mapping[str, JsonValue],
    reply: str,
) -> Change:
    """Set fields of the record at ``(collection, noun, key)`` and reply."""
    return revise(world, where, lambda _: members, reply)


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


def truthy(**members: JsonValue) -> dict[str, JsonValue]:
    """Keep the arguments that are truthy."""
    return {name: value for name, value in members.items() if value}


def record(**members: JsonValue) -> JsonObject:
    """Build a record; its members stand in the order of the arguments."""
    return trusted_object({name: as_json(value) for name, value in members.items()})
