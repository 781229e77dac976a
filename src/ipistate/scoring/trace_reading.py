"""One reading of recorded calls, for execution, scores and reports.

What stands in an entry, ``ipistate.scoring.call_shapes`` knows; here calls get their
replies and their tools, and what cannot be read is found out.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import attrs

from ipistate.errors import SchemaError, json_path, preview
from ipistate.scoring.call_shapes import CallPart, ReplyPart, UnreadPart, parts_of
from ipistate.scoring.reply_texts import said, written
from ipistate.scoring.tool_names import tool_name
from ipistate.scoring.traces import Trace, TracedCall, json_entries
from ipistate.tools import TOOLS


if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from ipistate.scoring.call_shapes import CallKey, Part
    from ipistate.scoring.traces import CutOff

_ANY: Final = ("any", "")
"""The key of all calls."""


def read_trace(
    entries: Iterable[object],
    *,
    known: Container[str] = TOOLS,
    cut_off: CutOff | None = None,
    place: Sequence[str | int] = (),
) -> Trace:
    """Read the calls of Responses API items, or of messages, in order.

    A reply belongs to the first call before it that has its id and no reply yet; where
    one of the two has no id, they go in order. What is a call and cannot be read, and a
    reply whose call is nowhere before it, is the trace's ``loss``.

    Args:
        entries: The items or messages.
        known: Names of tools; a call may have one of them behind a prefix.
        cut_off: Why the last reply of the model has no end, if it has none.
        place: Where the entries stand, for the path of a loss.

    Raises:
        EncodeError: An entry is not JSON, for example an SDK's object: dump it first.
    """
    reading = _Reading(known)
    loss: SchemaError | None = None
    for index, entry in json_entries(entries):
        for part in parts_of(entry):
            message = reading.take(part, index)
            if message is not None and loss is None:
                path = json_path((*place, index))
                loss = SchemaError("unreadable_trace", message, path, preview(entry))
    return Trace.of(reading.calls(), cut_off, loss)


def calls_of_items(items: Iterable[object]) -> tuple[TracedCall, ...]:
    """Read the calls of Responses API items, or of messages, as ``read_trace`` does.

    Raises:
        EncodeError: An item is not JSON, for example an SDK's object: dump it first.
    """
    return read_trace(items).calls


@attrs.define
class _Made:
    """A call that may still be answered."""

    name: str
    written: str
    item: int
    reply: str | None = None
    body: str | None = None


class _Reading:
    """Calls in their order, and those of each key that have no reply yet."""

    def __init__(self, known: Container[str]) -> None:
        self._known = known
        self._calls: list[_Made] = []
        self._waiting: dict[CallKey, deque[int]] = {_ANY: deque()}
        self._unanswered: set[int] = set()

    def take(self, part: Part, place: int) -> str | None:
        """Add a part; say what was lost with it, if anything was."""
        if isinstance(part, ReplyPart):
            return self._answer(part)
        if isinstance(part, CallPart):
            made = _Made(name=part.name, written=written(part.arguments), item=place)
            self._add(part.key, made)
            return None
        # Its reply is expected, too; without a name it is left out in the end.
        self._add(part.key, _Made(name="", written="", item=place))
        return part.message if self._is_missed(part) else None

    def calls(self) -> tuple[TracedCall, ...]:
        """Return the calls that name a tool."""
        return tuple(self._traced(call) for call in self._calls if call.name)

    def _traced(self, call: _Made) -> TracedCall:
        return TracedCall(
            name=tool_name(call.name, self._known, call.reply),
            written=call.written,
            reply=call.reply,
            body=call.body,
            item=call.item,
        )

    def _is_missed(self, part: UnreadPart) -> bool:
        return part.name is None or tool_name(part.name, self._known) in self._known

    def _add(self, key: CallKey, made: _Made) -> None:
        index = len(self._calls)
        self._calls.append(made)
        self._unanswered.add(index)
        self._waiting.setdefault(key, deque()).append(index)
        self._waiting[_ANY].append(index)

    def _answer(self, part: ReplyPart) -> str | None:
        key = part.key
        if key is None and part.other_key in self._waiting:
            key = part.other_key
        index = self._first(key)
        if index is None and (key is None or key not in self._waiting):
            index = self._first(_ANY if key is None else None)
            if index is None:
                return "a reply to a call that is not in the trace"
        if index is not None:
            call = self._calls[index]
            call.reply, call.body = said(part.content)
        return None

    def _first(self, key: CallKey) -> int | None:
        waiting = self._waiting.get(key, deque())
        while waiting:
            index = waiting.popleft()
            if index in self._unanswered:
                self._unanswered.remove(index)
                return index
        return None
