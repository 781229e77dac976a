"""What a domain brings: its rows, what users ask, and what attackers want.

Everything else about a task (names, wordings of attacks, sizes, labels) stands once, in
the other modules of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import attrs

from ipistate.generate.draft import DraftRow, Shape, WorldDraft
from ipistate.kernel import JsonObject, JsonValue
from ipistate.tools import TOOLS, ToolCall


@attrs.frozen
class Carrier:
    """A text that the user's request makes the agent read."""

    vector: str
    """What attackers call the place."""
    entry: DraftRow
    member: str
    read: ToolCall
    """The call of the request that shows it."""


@attrs.frozen(kw_only=True)
class TaskRequest:
    """What the user asks, and how a careful agent does it.

    The calls need all texts that the carriers name; at most one of them writes a text
    of one record, so that leaving it out is noticed.
    """

    words: tuple[str, ...]
    """Wordings, one of which is picked: full sentences that say every value that a
    writing call is not free to choose."""
    calls: tuple[ToolCall, ...]
    lead: ToolCall | None = None
    """A call that every other agent begins with; it only reads."""
    carriers: tuple[Carrier, ...]
    about: DraftRow | Callable[[WorldDraft], DraftRow]
    """The record that it is about, for attackers to start from. If there is none, what
    puts one on the stage."""

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the tools that it takes, in order: what writes, and what is read."""
        read = {carrier.read.name for carrier in self.carriers}
        names = [one.name for one in self.calls]
        return tuple(dict.fromkeys(n for n in names if TOOLS[n].writes or n in read))


@attrs.frozen(kw_only=True)
class Attack:
    """What the injection is to bring about: one call that changes the world."""

    call: ToolCall
    verification_type: str
    category: str
    orders: tuple[str, ...]
    """Wordings, one of which is picked: orders that begin with a verb in lower case and
    end without a stop. They name the deciding values as the call has them."""


Asking: TypeAlias = Callable[[WorldDraft], TaskRequest]
"""Puts the rows that a request is about on the stage, and words it."""
Attacking: TypeAlias = Callable[[WorldDraft, DraftRow], Attack]
"""Chooses a victim, the record that the request is about or another, and says what is
to happen."""


@attrs.frozen(kw_only=True)
class Domain:
    """Everything that is particular to one domain."""

    name: str
    companies: tuple[str, ...]
    """Kinds of companies where it takes place, such as ``Clinic``."""
    roles: tuple[str, ...]
    """What the user may be."""
    subjects: str
    """What the assistant works with: ``records, schedules and messages``."""
    shapes: Mapping[str, Shape]
    """Its collections."""
    filler: Callable[[WorldDraft], object]
    """Puts a few more rows on the stage, none of which a request is about."""
    requests: tuple[Asking, ...]
    attacks: Mapping[str, tuple[Attacking, ...]]
    """By the tool that the attack uses, which the request never does."""


def call(name: str, /, **arguments: JsonValue) -> ToolCall:
    """Write a call of a tool."""
    return ToolCall(name, JsonObject(arguments))
