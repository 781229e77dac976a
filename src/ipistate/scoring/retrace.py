"""Executing a trace again on its seed, and comparing every reply that was recorded."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, cast

import attrs

from ipistate.errors import DecodeError, IpiStateError, SchemaError
from ipistate.kernel import Change, diff, encode, render, whole_text
from ipistate.scoring.divergence import Divergence, divergence
from ipistate.scoring.renaming import MINTED, Renaming, new_ids
from ipistate.scoring.traces import TracedCall, read_arguments
from ipistate.tools import TOOLS, Tool, ToolCall, Transition, call_tool


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ipistate.kernel import Environment, JsonObject
    from ipistate.scoring.budget import Meter

_CUT_OFF: Final = SchemaError(
    "cut_off", "the reply that makes the call has no end, and nothing answered the call"
)


@attrs.frozen(kw_only=True)
class Executed:
    """One call of a trace, executed again."""

    traced: TracedCall
    call: ToolCall
    """With the ids that this execution minted."""
    before: Environment
    transition: Transition

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """What the call did to the world."""
        return diff(self.before, self.transition.environment).operations

    @property
    def reply(self) -> str:
        """What an agent reads now: JSON joins halves of a character on the way."""
        return whole_text(self.transition.output)


@attrs.frozen(kw_only=True)
class Refusal:
    """One call of a trace that is not executed.

    Its arguments are no object, or nobody executed it when it was recorded.
    """

    traced: TracedCall
    before: Environment
    error: IpiStateError


@attrs.frozen(kw_only=True)
class Retrace:
    """A trace, executed on its seed up to the first reply that differs."""

    steps: tuple[Executed | Refusal, ...]
    """If ``diverged``, the last one is the call whose reply differs."""
    diverged: bool
    renaming: Renaming
    """From the ids of the recording to those of this execution."""

    @property
    def divergence(self) -> Divergence | None:
        """Where the last call's reply differs, if it does."""
        last = self.steps[-1] if self.diverged else None
        if not isinstance(last, Executed) or last.traced.reply is None:
            return None
        return divergence(last.traced.reply, last.reply, self.renaming)


def retrace(
    seed: Environment,
    calls: Iterable[TracedCall],
    *,
    tools: Mapping[str, Tool] = TOOLS,
    meter: Meter | None = None,
) -> Retrace:
    """Execute the calls of a trace; ids that tools mint are compared by renaming.

    A call whose arguments are no object (``traces.read_arguments``) is not executed, nor
    is one that was cut off, and the next one goes on. An id that the seed, or the arguments of a call, had before any
    tool can have minted it is itself in both executions.

    Args:
        seed: The world before the first call.
        calls: The trace.
        tools: The table of tools.
        meter: Counts what the calls cost; by default nobody does.

    Raises:
        TooMuchWorkError: ``too_much_work``, if there is a meter.
    """
    comparison, world = _Comparison(seed), seed
    steps: list[Executed | Refusal] = []
    diverged = False
    for traced in calls:
        if meter is not None:
            meter.call(tools.get(traced.name), len(traced.written))
        step = _executed(traced, world, comparison, tools)
        steps.append(step)
        if isinstance(step, Executed):
            if meter is not None:
                meter.change(step.changes)
            world = step.transition.environment
            diverged = not comparison.agrees(traced, step.reply)
        if diverged:
            break
    return Retrace(steps=tuple(steps), diverged=diverged, renaming=comparison.names)


def _executed(
    traced: TracedCall,
    world: Environment,
    comparison: _Comparison,
    tools: Mapping[str, Tool],
) -> Executed | Refusal:
    if traced.is_cut_off:
        return Refusal(traced=traced, before=world, error=_CUT_OFF)
    try:
        recorded = read_arguments(traced.written)
    except (DecodeError, SchemaError) as error:
        return Refusal(traced=traced, before=world, error=error)
    arguments = comparison.translated(traced.written, recorded)
    call = ToolCall(traced.name, arguments)
    done = call_tool(world, traced.name, arguments, tools=tools)
    return Executed(traced=traced, call=call, before=world, transition=done)


class _Comparison:
    """What the texts compared so far say about the names of ids.

    As long as they are equal they are only kept: a recording with our own ids never has
    to be searched for them.
    """

    def __init__(self, seed: Environment) -> None:
        self._seed = seed
        self._equal: list[str] = []
        self._ids: dict[str, str] = {}
        self._taken: set[str] = set()
        self.names = Renaming(self._ids)

    def translated(self, written: str, arguments: JsonObject) -> JsonObject:
        """Write recorded arguments with the ids of this execution."""
        if not self._ids:
            self._equal.append(written)
            return arguments
        ours = self.names.renamed(arguments)
        # An id that only the model can have made up is itself.
        self._learn(render(arguments), render(ours))
        return cast("JsonObject", ours)

    def agrees(self, traced: TracedCall, output: str) -> bool:
        """Compare a reply, if it was recorded, and learn from it."""
        recorded = [text for text in (traced.reply, traced.body) if text is not None]
        if not recorded:
            return True
        if not self._ids:
            if output in recorded:
                self._equal.append(output)
                return True
            self._know_equal()
        return any(self._learn(text, output) for text in recorded)

    def _know_equal(self) -> None:
        same = "\n".join((encode(self._seed.document).decode(), *self._equal))
        self._know({match[0]: match[0] for match in MINTED.finditer(same)})

    def _learn(self, recorded: str, executed: str) -> bool:
        fresh = new_ids(self._ids, self._taken, recorded, executed)
        self._know(fresh or {})
        return fresh is not None

    def _know(self, ids: Mapping[str, str]) -> None:
        self._ids |= ids
        self._taken |= set(ids.values())
