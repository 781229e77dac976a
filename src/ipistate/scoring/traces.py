"""Recorded tool calls, and the rule for their arguments.

A trace is the record of an agent's episode. ``ipistate.scoring.trace_reading`` reads it,
once, for execution, scores and reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

import attrs

from ipistate.errors import DecodeError, EncodeError, SchemaError, json_path, preview
from ipistate.kernel import (
    EMPTY_OBJECT,
    JsonObject,
    JsonValue,
    decode,
    is_object,
    listed,
    render,
    trusted_object,
)


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ipistate.tools import ToolCall

CutOff: TypeAlias = Literal["truncated", "filtered"]
"""Why a response has no end: it was too long, or a filter of the provider stopped it."""

TRUNCATED: Final = "max_output_tokens"
"""The reason of an incomplete response that takes its reward away."""

FILTERED: Final = "content_filter"
"""The reason of a response that a filter of the provider stopped."""

_CALL: Final = "function_call"
_JSON: Final = (dict, str, list, int, float, type(None))


@attrs.frozen(kw_only=True)
class TracedCall:
    """A tool call as it was recorded."""

    name: str
    written: str
    """The arguments as text; what was recorded as an object is rendered."""
    reply: str | None = None
    """What the agent read, None if that was not recorded."""
    body: str | None = None
    """The object ``{"output": …}`` that ``reply`` was taken out of, if it was."""
    is_cut_off: bool = False
    """The reply that makes it was cut off and nothing answered, so nobody executed it."""
    item: int = attrs.field(default=0, eq=False, repr=False)
    """Position of the item or message that makes the call."""

    @property
    def arguments(self) -> JsonObject | None:
        """The arguments as ``read_arguments`` reads them; None if it refuses to."""
        try:
            return read_arguments(self.written)
        except (DecodeError, SchemaError):
            return None

    @classmethod
    def of(cls, call: ToolCall) -> Self:
        """Record a call as if an agent had made it; its reply is not known."""
        return cls(name=call.name, written=render(call.arguments))

    def to_item(self) -> JsonObject:
        """Write the call as a Responses API item."""
        members: dict[str, JsonValue] = {"name": self.name, "arguments": self.written}
        return trusted_object({"type": _CALL, **members})


@attrs.frozen(kw_only=True)
class Trace:
    """The calls of a rollout, and what keeps them from being all of its calls."""

    calls: tuple[TracedCall, ...]
    loss: SchemaError | None = None
    """``unreadable_trace``: the first place with a call that could not be read."""
    cut_off: CutOff | None = None
    """Why the last reply of the model has no end."""

    @classmethod
    def of(
        cls,
        calls: Iterable[TracedCall],
        cut_off: CutOff | None = None,
        loss: SchemaError | None = None,
    ) -> Self:
        """Make a trace; without an end, calls that nothing answered were not executed."""
        made = [*calls]
        for index in reversed(range(len(made) if cut_off else 0)):
            if made[index].reply is not None:
                break
            made[index] = attrs.evolve(made[index], is_cut_off=True)
        return cls(calls=tuple(made), loss=loss, cut_off=cut_off)

    @property
    def doubt(self) -> Literal["unreadable_trace", "truncated", "filtered"] | None:
        """Why what is not among the calls proves nothing, if so."""
        return "unreadable_trace" if self.loss is not None else self.cut_off


def read_arguments(written: str) -> JsonObject:
    """Read the arguments of a recorded call: the one rule for execution and scoring.

    The text is decoded once and has to be an object; an empty text is an empty object.
    Anything else (broken text, ``null``, an array, an object encoded twice) is refused:
    such a call is not executed, changes nothing and matches nothing, but it counts
    as made.

    Raises:
        DecodeError: The text is not acceptable JSON.
        SchemaError: ``wrong_type``: it is, but not an object.
    """
    if not written.strip():
        return EMPTY_OBJECT
    value = decode(written)
    if isinstance(value, JsonObject):
        return value
    raise SchemaError("wrong_type", "arguments are an object", preview=preview(value))


def function_calls(items: Iterable[object]) -> Iterator[dict[str, Any]]:
    """Visit the function calls among Responses API items that name their tool.

    These are the calls of the wire's verdict, each as it stands there: other shapes are
    no calls to it, and names are compared as they are.

    Raises:
        EncodeError: An item is not JSON, for example an SDK's object: dump it first.
        TypeError: A text or a mapping in place of the items.
    """
    for _, item in json_entries(items, "an output item"):
        if is_object(item) and item.get("type") == _CALL:
            name = item.get("name")
            if isinstance(name, str) and name:
                yield item


def json_entries(
    entries: Iterable[object], what: str = "a part of a trace"
) -> Iterator[tuple[int, object]]:
    """Number the entries of a trace.

    Raises:
        EncodeError: An entry is not JSON, for example an SDK's object: dump it first.
        TypeError: A text or a mapping in place of the entries.
    """
    parts = listed(entries, "a trace is a list of objects", "[{…}]")
    for index, entry in enumerate(parts):
        if not isinstance(entry, _JSON):
            message = f"{what} is JSON, not {type(entry).__name__}"
            where = json_path([index])
            raise EncodeError("unsupported_type", message, where, preview(entry))
        yield index, entry
