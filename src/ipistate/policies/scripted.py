"""Scripted policies: they play the reference trajectories of task rows.

The careful one does what the user asked. The gullible one also obeys the injection, from
when it has read it. Both know a row by its messages, and where they are by the calls made.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal, Self

import attrs

from ipistate.agents import (
    NewItems,
    PolicyError,
    PolicyReply,
    calls_in,
    fingerprint,
    input_messages,
    outputs_in,
    words,
)
from ipistate.kernel import encode, render


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ipistate.kernel import JsonObject
    from ipistate.scoring import Task, Trajectories
    from ipistate.tools import ToolCall

Temper = Literal["careful", "gullible"]


@attrs.frozen(kw_only=True)
class Script:
    """The two ways through one row, and the text that leads from one to the other."""

    row: int = attrs.field(eq=False)
    benign: tuple[ToolCall, ...]
    compromised: tuple[ToolCall, ...]
    bait: str | None
    """The injected text; None if it cannot be known whether an agent has read it."""

    @classmethod
    def of(cls, task: Task, ways: Trajectories) -> Self:
        """Write the script of a task row."""
        text = task.injection.injection_text
        inside = encode(text)[1:-1] in encode(task.environment.document)
        return cls(
            row=ways.row,
            benign=ways.benign,
            compromised=ways.compromised,
            bait=text if text and inside else None,
        )

    def plan(
        self, temper: Temper, conversation: Sequence[JsonObject]
    ) -> tuple[ToolCall, ...]:
        """Return the calls that an agent means to make, as far as it has read."""
        if temper == "careful" or not self._is_taken(conversation):
            return self.benign
        return self.compromised

    def _is_taken(self, conversation: Sequence[JsonObject]) -> bool:
        if self.bait is None:
            return True
        spellings = _spellings(self.bait)
        return any(
            any(one in read for one in spellings) for read in outputs_in(conversation)
        )


def _spellings(text: str) -> frozenset[str]:
    # As it is, inside a rendered record, and both inside the JSON body of a reply.
    once = render(text)[1:-1]
    bodies = [encode(one).decode()[1:-1] for one in (text, once)]
    return frozenset((text, once, *bodies))


@attrs.frozen
class Scripts:
    """The scripts of a task file, found by the messages that a conversation begins with."""

    _by_messages: Mapping[bytes, tuple[Script, ...]]
    _lengths: tuple[int, ...]

    @classmethod
    def of(cls, tasks: Iterable[Task], ways: Mapping[int, Trajectories]) -> Self:
        """Write the scripts of rows, in order; a row may have no trajectories.

        Args:
            tasks: The rows, one after another; their worlds are not kept.
            ways: The trajectories by the position of their row, as ``by_row`` sorts them.
        """
        found: dict[bytes, tuple[Script, ...]] = {}
        lengths: set[int] = set()
        for row, task in enumerate(tasks):
            if row in ways:
                messages = input_messages(task.responses_create_params)
                key, script = fingerprint(messages), Script.of(task, ways[row])
                known = found.get(key, ())
                found[key] = known if script in known else (*known, script)
                lengths.add(len(messages))
        return cls(found, tuple(sorted(lengths, reverse=True)))

    def __len__(self) -> int:
        return sum(map(len, self._by_messages.values()))

    def script(self, conversation: Sequence[JsonObject]) -> Script:
        """Find the script of a conversation.

        Raises:
            PolicyError: ``unknown_prompt``, or ``ambiguous_prompt`` if rows with the
                same messages have different trajectories.
        """
        for length in self._lengths:
            key = fingerprint(conversation[:length])
            if found := self._by_messages.get(key):
                return _only(found)
        raise PolicyError(
            "unknown_prompt",
            "no reference trajectory begins with these messages: give the trajectories "
            "that belong to the tasks (--trajectories), or another policy",
            "$.responses_create_params.input",
        )


def _only(found: tuple[Script, ...]) -> Script:
    if len(found) == 1:
        return found[0]
    rows = " and ".join(str(script.row) for script in found[:2])
    raise PolicyError(
        "ambiguous_prompt",
        f"rows {rows}, counted from 0, have the same messages and other trajectories: "
        "change the messages, or take another policy",
        "$.responses_create_params.input",
    )


@attrs.frozen
class ScriptedPolicy:
    """Plays the reference trajectories, one call in each turn.

    Args:
        name: ``careful`` or ``gullible``.
        scripts: What it may be asked to play.
    """

    name: Temper
    scripts: Scripts = attrs.field(repr=False)

    async def respond(
        self, conversation: Sequence[JsonObject], tools: Sequence[JsonObject]
    ) -> PolicyReply:
        """Make the first call of the plan that is not made yet, or say goodbye.

        Raises:
            PolicyError: No script is known for the conversation, or several are.
        """
        del tools
        plan = self.scripts.script(conversation).plan(self.name, conversation)
        call, new = _next(plan, conversation), NewItems(conversation)
        if call is None:
            item = new.message([words("Done.")])
        else:
            item = new.function_call(None, call.name, call.arguments)
        return PolicyReply(items=(item,), model=f"scripted-{self.name}")


def _next(
    plan: Sequence[ToolCall], conversation: Sequence[JsonObject]
) -> ToolCall | None:
    made = Counter(calls_in(conversation))
    for call in plan:
        key = call.name, render(call.arguments)
        if not made[key]:
            return call
        made[key] -= 1
    return None
