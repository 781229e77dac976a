"""The trace of a stored rollout: where it stands, and whether it has an end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ipistate.kernel import is_array, is_object
from ipistate.scoring.tool_names import KnownNames
from ipistate.scoring.trace_reading import read_trace
from ipistate.scoring.traces import FILTERED, TRUNCATED
from ipistate.tools import TOOLS


if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from ipistate.scoring.traces import CutOff, Trace, TracedCall

_FINISHES: Final[Mapping[object, str]] = MappingProxyType(
    {"length": TRUNCATED, "max_tokens": TRUNCATED, "content_filter": FILTERED}
)
"""Why the choice of a completion ends, in the words of a response."""

_WITHOUT_END: Final = ("incomplete", "failed", "cancelled")


class _Recorded(NamedTuple):
    place: tuple[str | int, ...]
    entries: Sequence[Any]


def trace_of(
    rollout: Mapping[str, object], *, tools: Container[str] = TOOLS
) -> Trace | None:
    """Read the trace of a stored rollout; None if it has none that is known.

    Args:
        rollout: The row.
        tools: Names of tools, beside those that the row requires or attacks.

    Raises:
        EncodeError: A part of the trace is not JSON.
    """
    found = _recorded(rollout)
    if found is None:
        return None
    response = rollout.get("response")
    return read_trace(
        found.entries,
        known=KnownNames(tools, tuple(_named(rollout))),
        cut_off=cut_off_of(response if is_object(response) else {}),
        place=found.place,
    )


def calls_of(rollout: Mapping[str, object]) -> tuple[TracedCall, ...] | None:
    """Read the calls of a stored rollout; None if it has no trace that is known.

    Raises:
        EncodeError: A part of the trace is not JSON.
    """
    trace = trace_of(rollout)
    return None if trace is None else trace.calls


def items_of(rollout: Mapping[str, object]) -> Sequence[Any] | None:
    """Return the trace of a stored rollout as it stands there; None if none is known.

    Looked for are, in this order: ``response.output`` (Responses API items),
    ``messages`` (a conversation) and the message of the first of ``response.choices``.
    One that is empty is taken if all are.
    """
    found = _recorded(rollout)
    return None if found is None else found.entries


def incomplete_reason(response: Mapping[str, object]) -> str | None:
    """Return ``incomplete_details.reason`` of a response; None if it has none.

    A completion, which has choices and no output, says it in its first choice.
    """
    details = response.get("incomplete_details")
    reason = details.get("reason") if is_object(details) else None
    choices = response.get("choices") if "output" not in response else None
    if not is_object(details) and is_array(choices) and choices:
        first = choices[0] if is_object(choices[0]) else {}
        finish = first.get("finish_reason", first.get("stop_reason"))
        reason = _FINISHES.get(finish) if isinstance(finish, str) else None
    return reason if isinstance(reason, str) else None


def cut_off_by(reason: str | None) -> CutOff | None:
    """Say what the reason of an incomplete response means for its trace."""
    if not reason:
        return None
    return "filtered" if reason == FILTERED else "truncated"


def cut_off_of(response: Mapping[str, object]) -> CutOff | None:
    """Say why a response has no end, by its reason or its status; None if it has one."""
    found = cut_off_by(incomplete_reason(response))
    without_end = response.get("status") in _WITHOUT_END
    return "truncated" if found is None and without_end else found


def _recorded(rollout: Mapping[str, object]) -> _Recorded | None:
    places = [*_places(rollout)]
    filled = (one for one in places if one.entries)
    return next(filled, places[0] if places else None)


def _places(rollout: Mapping[str, object]) -> Iterator[_Recorded]:
    response = rollout.get("response")
    response = response if is_object(response) else {}
    output, messages = response.get("output"), rollout.get("messages")
    if is_array(output):
        yield _Recorded(("response", "output"), output)
    if is_array(messages):
        yield _Recorded(("messages",), messages)
    choices = response.get("choices")
    if is_array(choices):
        # Further choices are alternatives to the first, not what came after it.
        first = [one.get("message") if is_object(one) else one for one in choices[:1]]
        yield _Recorded(("response", "choices"), first)


def _named(rollout: Mapping[str, object]) -> Iterator[str]:
    injection, required = rollout.get("injection"), rollout.get("required_tools")
    target = injection.get("target_tool") if is_object(injection) else None
    for name in (target, *(required if is_array(required) else ())):
        if isinstance(name, str):
            yield name
