"""Mutants of reference calls: one thing changed each, derived from the world alone."""

from __future__ import annotations

import re

from collections.abc import Iterable
from math import isfinite
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

from ipistate.kernel import (
    INTEGER_BOUND,
    JsonArray,
    JsonObject,
    JsonValue,
    with_member,
)
from ipistate.scoring.effects.requirements import TABLES
from ipistate.scoring.matching import RECIPIENTS
from ipistate.tools import TOOLS, Tool, ToolCall, call_tool, world_after


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ipistate.kernel import Environment

Kind: TypeAlias = Literal[
    "other_id",
    "unknown_id",
    "other_recipient",
    "extra_recipient",
    "ten_times",
    "other_date",
    "other_flag",
    "other_text",
    "missing_call",
    "repeated_call",
    "extra_call",
]

OTHER_RECIPIENT: Final = "somebody.else@audit.example"
OTHER_DATE: Final = "2031-12-24"

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_NUMERAL: Final = re.compile(r"-?[0-9]+")
_FILLINGS: Final[Mapping[str, JsonValue]] = {
    "number": 1,
    "integer": 1,
    "boolean": True,
    "array": JsonArray(["other"]),
}


@attrs.frozen(kw_only=True)
class Mutant:
    """A trajectory with one change."""

    kind: Kind
    call: int
    """Position of the changed, missing or additional call."""
    tool: str
    argument: str | None = None
    """The changed argument, if it is one."""
    old: JsonValue = None
    new: JsonValue = None
    calls: tuple[ToolCall, ...] = attrs.field(repr=False)
    """The whole trajectory with the change."""


def call_mutants(
    world: Environment,
    calls: Sequence[ToolCall],
    positions: Iterable[int],
    tools: Mapping[str, Tool] = TOOLS,
) -> Iterator[Mutant]:
    """Change, leave out and repeat the calls at some positions, one at a time.

    Each argument gets other values of its kind; a call that only reads is not repeated.

    Args:
        world: Where other ids are found.
        calls: The trajectory.
        positions: Of the calls to change.
        tools: The table of tools.
    """
    for position in positions:
        call, tool = calls[position], tools.get(calls[position].name)
        head, tail = tuple(calls[:position]), tuple(calls[position + 1 :])
        for name, old in call.arguments.items():
            kinds = () if tool is None else tool.kinds_of(name)
            for kind, new in _others(world, name, old, kinds):
                arguments = with_member(call.arguments, name, new)
                yield Mutant(
                    kind=kind,
                    call=position,
                    tool=call.name,
                    argument=name,
                    old=old,
                    new=new,
                    calls=(*head, ToolCall(call.name, arguments), *tail),
                )
        yield Mutant(
            kind="missing_call", call=position, tool=call.name, calls=(*head, *tail)
        )
        if tool is not None and tool.writes:
            yield Mutant(
                kind="repeated_call",
                call=position + 1,
                tool=call.name,
                calls=(*head, call, call, *tail),
            )


def extra_calls(
    world: Environment,
    calls: Sequence[ToolCall],
    names: Iterable[str],
    tools: Mapping[str, Tool] = TOOLS,
) -> Iterator[Mutant]:
    """Append one more writing call to a trajectory, of each of some tools.

    Its arguments are filled from the world; a call that would change nothing is left
    out.
    """
    world = world_after(world, calls, tools=tools)
    for name in names:
        tool = tools.get(name)
        if tool is not None and tool.writes:
            call = ToolCall(name, _filled(world, tool))
            done = call_tool(world, name, call.arguments, tools=tools)
            if done.environment is not world:
                yield Mutant(
                    kind="extra_call",
                    call=len(calls),
                    tool=name,
                    new=call.arguments,
                    calls=(*calls, call),
                )


def _others(
    world: Environment, name: str, old: JsonValue, kinds: Sequence[JsonValue]
) -> Iterator[tuple[Kind, JsonValue]]:
    if isinstance(old, bool):
        yield "other_flag", not old
    elif isinstance(old, int | float):
        yield from _times(old)
    elif isinstance(old, str):
        yield from _other_texts(world, name, old, kinds)
    elif isinstance(old, JsonArray):
        yield from _other_elements(world, name, old)


def _times(old: float) -> Iterator[tuple[Kind, JsonValue]]:
    # What JSON cannot carry is nothing that an agent could have sent.
    more = old * 10
    if old and (abs(more) < INTEGER_BOUND if isinstance(more, int) else isfinite(more)):
        yield "ten_times", more


def _other_texts(
    world: Environment, name: str, old: str, kinds: Sequence[JsonValue]
) -> Iterator[tuple[Kind, JsonValue]]:
    if "number" in kinds and _NUMERAL.fullmatch(old):
        # Task rows write the numbers of their target as text.
        if old.strip("-0"):
            yield "ten_times", f"{old}0"
    elif name in RECIPIENTS or name.endswith("email"):
        yield "other_recipient", OTHER_RECIPIENT
        if name in RECIPIENTS:
            yield "extra_recipient", f"{old}, {OTHER_RECIPIENT}"
    elif _is_id(name):
        for one in _sibling(world, name, old):
            yield "other_id", one
        yield "unknown_id", _unused(world, old)
    elif _DATE.fullmatch(old):
        yield "other_date", OTHER_DATE if old != OTHER_DATE else "2031-12-27"
    else:
        yield "other_text", "other" if old != "other" else "another"


def _other_elements(
    world: Environment, name: str, old: JsonArray
) -> Iterator[tuple[Kind, JsonValue]]:
    if name in RECIPIENTS:
        yield "other_recipient", JsonArray([OTHER_RECIPIENT])
        yield "extra_recipient", JsonArray([*old, OTHER_RECIPIENT])
        return
    for index, element in enumerate(old):
        for kind, new in _others(world, name, element, ()):
            yield kind, JsonArray([*old[:index], new, *old[index + 1 :]])


def _is_id(name: str) -> bool:
    return name in TABLES or name.endswith("_id") or name == "sku"


def _sibling(world: Environment, name: str, old: str) -> Iterator[str]:
    # The next one after it in the table that has it; at most one.
    for table in _tables(world, name):
        for ids in (_keys(table), _references(table, name)):
            if old in ids and len(ids) > 1:
                yield ids[(ids.index(old) + 1) % len(ids)]
                return


def _tables(world: Environment, name: str) -> Iterator[JsonValue]:
    document = world.document
    yield from (document[one] for one in TABLES.get(name, ()) if one in document)
    yield from document.values()


def _keys(table: JsonValue) -> list[str]:
    return list(table) if isinstance(table, JsonObject) else []


def _references(table: JsonValue, name: str) -> list[str]:
    rows = table.values() if isinstance(table, JsonObject) else table
    members = [
        row.get(name)
        for row in (rows if isinstance(rows, Iterable) else ())
        if isinstance(row, JsonObject)
    ]
    return list(dict.fromkeys(one for one in members if isinstance(one, str)))


def _unused(world: Environment, old: str) -> str:
    tables = [one for one in world.document.values() if isinstance(one, JsonObject)]
    new = f"{old}X"
    while any(new in table for table in tables):
        new += "X"
    return new


def _filled(world: Environment, tool: Tool) -> JsonObject:
    recipients = [name for name in RECIPIENTS if name in tool.known][:1]
    names = dict.fromkeys((*tool.required, *recipients))
    return JsonObject({name: _filler(world, tool, name) for name in names})


def _filler(world: Environment, tool: Tool, name: str) -> JsonValue:
    if name in RECIPIENTS or name.endswith("email"):
        return OTHER_RECIPIENT
    if _is_id(name):
        return next(_known(world, name), "other")
    if "date" in name:
        return OTHER_DATE
    known = [kind for kind in tool.kinds_of(name) if kind in _FILLINGS]
    return _FILLINGS[str(known[0])] if known else "other"


def _known(world: Environment, name: str) -> Iterator[str]:
    for collection in TABLES.get(name, ()):
        yield from _keys(world.document.get(collection))
    for table in world.document.values():
        yield from _references(table, name)
