"""Short texts of values and records, for prompts, tracebacks and notebooks.

A world may have megabytes, and any text in it may be hostile. What is shown is bounded,
says how much there is, and has no character that a terminal or a browser obeys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any, Final, TypeAlias

import attrs

from ipistate.errors import preview
from ipistate.kernel.limits import is_array, is_object


REPR_LIMIT: Final = 200
"""Characters of the longest ``repr`` of a record."""

HTML_ROWS: Final = 50
"""Rows of the longest table in a notebook."""

Representation: TypeAlias = Callable[[object], str]
"""The type of a method that represents its object as text."""

_CELL: Final = 300
_SHORT: Final = 30
_UNITS: Final[tuple[tuple[type, str], ...]] = (
    (str, "character"),
    (bytes, "byte"),
    (dict, "member"),
    (list, "element"),
    (tuple, "element"),
)


def summary(value: object, limit: int = REPR_LIMIT) -> str:
    """Write a value as ``repr`` does, in at most ``limit`` characters.

    A text that is cut ends in ``…`` and the size of the value. The work is bounded, too:
    of a large value only the beginning is looked at.
    """
    return _joined(_pieces(value, limit), limit, _size(value))


def record_summary(record: object, members: Mapping[str, object]) -> str:
    """Write a record with these members: ``Name(output='…', error=None)``.

    Short members stand whole, and long ones share the rest of ``REPR_LIMIT``.
    """
    kind = type(record).__name__
    names = [f"{name}=" for name in members]
    signs = len(kind) + 2 + sum(map(len, names)) + 2 * max(0, len(names) - 1)
    room = max(0, REPR_LIMIT - signs)
    whole = [summary(value, room) for value in members.values()]
    shares = _shares([*map(len, whole)], room)
    texts = map(summary, members.values(), shares)
    shown = ", ".join(f"{name}{text}" for name, text in zip(names, texts, strict=True))
    return _cut(f"{kind}({shown})", REPR_LIMIT, "")


def summarized(*names: str) -> Representation:
    """Make the ``__repr__`` of an attrs record that shows these members, in this order.

    Without names it shows all fields that attrs would show.
    """

    def represent(record: Any) -> str:
        kind: Any = record.__class__
        shown = names or [f.name for f in attrs.fields(kind) if f.repr]
        return record_summary(record, {name: getattr(record, name) for name in shown})

    return represent


def listing(kind: str, parts: Iterable[str], size: str) -> str:
    """Write ``Name(part, part, … (size))``, as many parts as there is room for."""
    separated = (f", {part}" if n else part for n, part in enumerate(parts))
    inner = _joined(separated, REPR_LIMIT - len(kind) - 2, size)
    return _cut(f"{kind}({inner})", REPR_LIMIT, "")


def amount(number: int, one: str) -> str:
    """Write how many there are of something."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def key_text(name: str | int) -> str:
    """Write a member's name in bounded space, in quotes if it is no plain word."""
    text = str(name)
    is_word = len(text) <= _SHORT and text.isascii() and text.isidentifier()
    return text if is_word else summary(name, _SHORT)


def amount_of(value: object) -> str:
    """Say how much a member of a world holds: its size, or the value if it has none."""
    if is_object(value) or is_array(value):
        return f"{len(value)}"
    return summary(value, _SHORT)


def visible(text: str) -> str:
    """Write every character that a terminal would obey as an escape."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def html_table(
    title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], size: int
) -> str:
    """Write a table for a notebook; every text is escaped and cut.

    Args:
        title: What the table shows.
        heads: The heads of its columns.
        rows: The texts of its cells; no more than ``HTML_ROWS`` are taken.
        size: How many rows there are.
    """
    shown = [*islice(rows, HTML_ROWS)]
    lines = [_html_row("th", heads), *(_html_row("td", row) for row in shown)]
    rest = size - len(shown)
    if rest > 0:
        more = _html_cell(f"… and {rest:,} more")
        lines.append(f'<tr><td colspan="{len(heads)}">{more}</td></tr>')
    caption = f"<caption>{_html_cell(title)}</caption>"
    return f"<table>{caption}{''.join(lines)}</table>"


def _html_row(tag: str, cells: Sequence[str]) -> str:
    inner = "".join(f"<{tag}>{_html_cell(cell)}</{tag}>" for cell in cells)
    return f"<tr>{inner}</tr>"


def _html_cell(text: str) -> str:
    shown = text if len(text) <= _CELL else f"{text[:_CELL]}…"
    return escape(visible(shown))


def _pieces(value: Any, limit: int) -> Iterator[str]:
    kind = value.__class__
    if kind is str or kind is bytes:
        yield repr(value[: limit + 1])
    elif is_object(value):
        yield "{"
        for position, (name, member) in enumerate(value.items()):
            yield ", " if position else ""
            yield from _pieces(name, limit)
            yield ": "
            yield from _pieces(member, limit)
        yield "}"
    elif is_array(value) or kind is tuple:
        is_tuple = kind is tuple
        yield "(" if is_tuple else "["
        for position, element in enumerate(value):
            yield ", " if position else ""
            yield from _pieces(element, limit)
        lone = "," if is_tuple and len(value) == 1 else ""
        yield f"{lone})" if is_tuple else "]"
    else:
        # The digits of a long integer cost more than they tell.
        yield preview(value) if isinstance(value, int) else visible(repr(value))


def _joined(pieces: Iterable[str], limit: int, size: str) -> str:
    text = ""
    for piece in pieces:
        text += piece
        if len(text) > limit:
            return _cut(text, limit, size)
    return text


def _cut(text: str, limit: int, size: str) -> str:
    if len(text) <= limit:
        return text
    end = f"… ({size})" if size else "…"
    return (text[: max(0, limit - len(end))] + end)[:limit]


def _size(value: Any) -> str:
    kind: Any = value.__class__
    unit = next((name for one, name in _UNITS if issubclass(kind, one)), None)
    return "" if unit is None else amount(len(value), unit)


def _shares(lengths: Sequence[int], room: int) -> list[int]:
    shares = [*lengths]
    shortest_first = sorted(range(len(lengths)), key=lengths.__getitem__)
    for done, index in enumerate(shortest_first):
        shares[index] = min(lengths[index], room // (len(lengths) - done))
        room -= shares[index]
    return shares
