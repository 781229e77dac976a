"""Strategies for worlds: well-formed ones from typed rows, and damaged ones."""

from __future__ import annotations

from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, cast, get_args

import attrs

from hypothesis import strategies as st

from ipistate.kernel import MAX_DEPTH, Environment, JsonObject, thaw
from ipistate.testing.concise import concise
from ipistate.testing.json_values import json_names, json_strings, plain_json
from ipistate.tools import Row


if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypothesis.strategies import SearchStrategy

_INHERITED: Final = frozenset(field.name for field in attrs.fields(Row))
_WORDS: Final = ("open", "Open", "closed", "2026-03-01", "2026-04-15", "Ada Example")

_ids: Final = st.sampled_from(("P-1", "P-2", "P-3", "A1B2C3", "T-00FFAA"))
_texts: Final = st.one_of(st.sampled_from(_WORDS), st.text(max_size=8), json_strings())
_numbers: Final = st.one_of(
    st.integers(-5, 500), st.sampled_from((0.0, -0.0, 2.5, 1e-07, 1e16, 2**64))
)


# Two of them may be nested, and together stay within the limit.
_odd: Final = plain_json(4, MAX_DEPTH // 4)


def rows(record: type[Row]) -> SearchStrategy[dict[str, Any]]:
    """Well-formed rows of a record class, as plain data.

    Optional members may be missing or null, unknown members may stand among the known
    ones, and the order of members varies. Fields called ``…_id`` hold ids that other
    rows hold, too.
    """
    attrs.resolve_types(record)
    fields = [f for f in attrs.fields(record) if f.name not in _INHERITED]
    needed = {f.name: _member(f) for f in fields if f.default is attrs.NOTHING}
    optional = {f.name: _member(f) for f in fields if f.default is not attrs.NOTHING}
    names = _INHERITED | {field.name for field in fields}
    unknown = st.dictionaries(
        json_names().filter(lambda name: name not in names), _odd, max_size=2
    )
    known = st.fixed_dictionaries(needed, optional=optional)
    members = st.tuples(unknown, known).map(lambda parts: parts[0] | parts[1])
    return members.flatmap(_either_way_round)


def _either_way_round(members: dict[str, Any]) -> SearchStrategy[dict[str, Any]]:
    return st.sampled_from((members, dict(reversed(members.items()))))


def _member(field: attrs.Attribute[Any]) -> SearchStrategy[Any]:
    if field.name.endswith("_id"):
        return _ids
    whole: Any = field.type
    kinds = get_args(whole)
    if NoneType in kinds and len(kinds) == 2:
        return st.one_of(st.none(), _of_kind(kinds[kinds[0] is NoneType]))
    return _of_kind(whole)


@cache
def _of_kind(kind: Any) -> SearchStrategy[Any]:
    plain: dict[Any, SearchStrategy[Any]] = {
        str: _texts,
        bool: st.booleans(),
        int: st.integers(),
        float: _numbers,
        tuple[str, ...]: st.lists(_texts, max_size=3),
        JsonObject: st.dictionaries(json_names(), _odd, max_size=3),
    }
    return plain.get(kind, _odd)


def tables(record: type[Row]) -> SearchStrategy[dict[str, Any]]:
    """Tables of well-formed rows; the first field of the record is the row's id."""
    fields = [f.name for f in attrs.fields(record) if f.name not in _INHERITED]
    id_name = fields[0]

    def keyed(found: list[dict[str, Any]]) -> dict[str, Any]:
        return {row[id_name]: row for row in found}

    return st.lists(rows(record), max_size=4).map(keyed)


def _message() -> SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"from": _texts, "to": _texts, "subject": _texts, "body": _texts},
        optional={
            "message_id": _ids,
            "case_id": _ids,
            "claim_id": _ids,
            "shipment_id": _ids,
            "is_read": st.booleans(),
        },
    )


def _box() -> SearchStrategy[Any]:
    messages = st.lists(_message(), max_size=3)
    return st.one_of(messages, st.dictionaries(_ids, _message(), max_size=3))


_BY_PERSON: Final = st.dictionaries(
    _ids, st.lists(st.dictionaries(json_names(), _texts, max_size=2), max_size=2)
)

COMMON: Final[Mapping[str, SearchStrategy[Any]]] = {
    "current_user": st.fixed_dictionaries(
        {}, optional={"name": _texts, "role": _texts, "email": _texts | st.none()}
    ),
    "messages": _box(),
    "inbox": _box(),
    "carrier_messages": _box(),
    "sent_actions": st.lists(st.fixed_dictionaries({"type": _texts}), max_size=2),
    "prescriptions": _BY_PERSON,
    "lab_results": _BY_PERSON,
}
"""Collections that have no typed rows but occur in ordinary worlds."""


def worlds(
    records: Mapping[str, type[Row]],
    others: Mapping[str, SearchStrategy[Any]] = COMMON,
) -> SearchStrategy[Environment]:
    """Well-formed worlds: tables of the given records and other collections, or not.

    Args:
        records: Record class by collection, such as ``ipistate.tools.RECORDS["hr"]``.
        others: Strategies of further collections.
    """
    collections = {name: tables(record) for name, record in records.items()}
    members = st.fixed_dictionaries({}, optional={**collections, **others})
    return concise(members.flatmap(_either_way_round).map(Environment.of))


@st.composite
def damaged(draw: st.DrawFn, sound: SearchStrategy[Environment]) -> Environment:
    """Worlds in which one to three places hold any other JSON value, or nothing."""
    members: dict[str, Any] = thaw(draw(sound).document)
    for _ in range(draw(st.integers(1, 3))):
        _damage(draw, members)
    return Environment.of(members)


def _damage(draw: st.DrawFn, members: dict[str, Any]) -> None:
    # Walks down from the world until it stops; a new member spoils an empty world.
    place: Any = members
    key: Any = draw(st.sampled_from(_keys(place) or ["patients"]))
    further = draw(st.integers(0, 3))
    while further and key in _keys(place) and _keys(place[key]):
        place, further = place[key], further - 1
        key = draw(st.sampled_from(_keys(place)))
    place[key] = draw(_odd)


def _keys(place: Any) -> list[Any]:
    if isinstance(place, dict):
        return [*cast("dict[str, Any]", place)]
    return [*range(len(place))] if isinstance(place, list) else []  # pyright: ignore[reportUnknownArgumentType]
