"""Binding of arguments to parameters, with the interpreter's refusals.

The texts, the order of the checks and the "Did you mean" endings are those of CPython
3.13 on every interpreter (docs/reference/tools.md, sections 2.2 and 6.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ipistate.tools.semantics import Refused


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ipistate.kernel import JsonObject, JsonValue
    from ipistate.tools.registry import Tool

_WORLD: Final = "env"
_MOVE: Final = 2
_CASE: Final = 1
_LONGEST: Final = 40


def bind(tool: Tool, arguments: JsonObject) -> Mapping[str, JsonValue]:
    """Choose the arguments to call a tool with; nothing is coerced, null is absent.

    Raises:
        Refused: ``TypeError`` for an unknown, reserved or missing argument.
    """
    bound: Mapping[str, JsonValue] = arguments
    if None in arguments.values():
        bound = given(arguments)
    names = bound.keys()
    if names == tool.known or tool.needed <= names <= tool.known:
        return bound
    for name in bound:
        if name not in tool.known:
            _check_unknown(tool, name)
    missing = [name for name in tool.required if name not in bound]
    if missing:
        raise _missing(tool.name, missing)
    return {name: bound[name] for name in tool.names if name in bound}


def given(arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Keep the arguments that were given: null counts as absent.

    See docs/reference/tools.md, section 2.2.
    """
    return {name: value for name, value in arguments.items() if value is not None}


def _check_unknown(tool: Tool, name: str) -> None:
    if name == _WORLD:
        shown = f"{tool.name}() got multiple values for argument '{name}'"
        raise Refused("TypeError", shown)
    if not tool.ignores_unknown:
        shown = f"{tool.name}() got an unexpected keyword argument '{name}'"
        near = suggestion(name, (_WORLD, *tool.names))
        hint = f". Did you mean '{near}'?" if near else ""
        raise Refused("TypeError", shown + hint)


def _missing(function: str, names: list[str]) -> Refused:
    quoted = [f"'{name}'" for name in names]
    if len(quoted) > 2:
        quoted[-1] = f"and {quoted[-1]}"
    listed = " and ".join(quoted) if len(quoted) == 2 else ", ".join(quoted)
    plural = "" if len(names) == 1 else "s"
    shown = f"missing {len(names)} required positional argument{plural}: {listed}"
    return Refused("TypeError", f"{function}() {shown}")


def suggestion(name: str, candidates: Iterable[str]) -> str | None:
    """Find the name that a misspelt one probably means.

    The interpreter's edit distance over UTF-8 bytes; the cheapest acceptable candidate
    wins, the earlier one on a tie.
    """
    wrong = name.encode("utf-8", "surrogatepass")
    best, best_cost = None, None
    for candidate in candidates:
        right = candidate.encode("utf-8", "surrogatepass")
        limit = (len(wrong) + len(right) + 3) * _MOVE // 6
        if best_cost is not None:
            limit = min(limit, best_cost - 1)
        cost = _distance(wrong, right)
        if cost is not None and cost <= limit:
            best, best_cost = candidate, cost
    return best


def _distance(left: bytes, right: bytes) -> int | None:
    # None where the interpreter gives up: a rest of over 40 bytes.
    left, right = _without_common_ends(left, right)
    if not left or not right:
        return (len(left) + len(right)) * _MOVE
    if len(left) > _LONGEST or len(right) > _LONGEST:
        return None
    row = [column * _MOVE for column in range(len(right) + 1)]
    for line, one in enumerate(left, 1):
        above, row = row, [line * _MOVE]
        for column, other in enumerate(right, 1):
            change = above[column - 1] + _substitution(one, other)
            row.append(min(change, above[column] + _MOVE, row[-1] + _MOVE))
    return row[-1]


def _without_common_ends(left: bytes, right: bytes) -> tuple[bytes, bytes]:
    while left and right and left[0] == right[0]:
        left, right = left[1:], right[1:]
    while left and right and left[-1] == right[-1]:
        left, right = left[:-1], right[:-1]
    return left, right


def _substitution(one: int, other: int) -> int:
    if one == other:
        return 0
    same = bytes([one]).lower() == bytes([other]).lower()
    return _CASE if same else _MOVE
