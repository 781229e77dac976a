"""Executing a trace again on its seed, and comparing every reply that was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ipistate.errors import DecodeError, IpiStateError, SchemaError
from ipistate.renaming import Renaming
from ipistate.tools import TOOLS, Tool
from ipistate.trace import TracedCall, read_arguments
from ipistate.transition import ToolCall, Transition, call_tool


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ipistate.environment import Environment


@attrs.frozen(kw_only=True)
class Executed:
    """One call of a trace, executed again."""

    traced: TracedCall
    call: ToolCall
    """With the ids that this execution minted."""
    before: Environment
    transition: Transition


@attrs.frozen(kw_only=True)
class Refusal:
    """One call of a trace that nobody executes: its arguments are no object."""

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


def retrace(
    seed: Environment,
    calls: Iterable[TracedCall],
    *,
    tools: Mapping[str, Tool] = TOOLS,
) -> Retrace:
    """Execute the calls of a trace; ids that tools mint are compared by renaming."""
    names, world = Renaming(), seed
    steps: list[Executed | Refusal] = []
    for traced in calls:
        step = _executed(traced, world, names, tools)
        steps.append(step)
        if isinstance(step, Refusal):
            continue
        world = step.transition.environment
        if traced.reply is not None:
            learnt = names.extended(traced.reply, step.transition.output)
            if learnt is None:
                return Retrace(steps=tuple(steps), diverged=True, renaming=names)
            names = learnt
    return Retrace(steps=tuple(steps), diverged=False, renaming=names)


def _executed(
    traced: TracedCall,
    world: Environment,
    names: Renaming,
    tools: Mapping[str, Tool],
) -> Executed | Refusal:
    try:
        arguments = read_arguments(names.applied(traced.written))
    except (DecodeError, SchemaError) as error:
        return Refusal(traced=traced, before=world, error=error)
    call = ToolCall(traced.name, arguments)
    done = call_tool(world, traced.name, arguments, tools=tools)
    return Executed(traced=traced, call=call, before=world, transition=done)
