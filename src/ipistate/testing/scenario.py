"""A scenario: a world, the calls to make in it and the tools that answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hypothesis import strategies as st

from ipistate.kernel import Environment
from ipistate.testing.calls import made_calls
from ipistate.testing.worlds import COMMON, damaged, worlds
from ipistate.tools import TOOLS, Tool, ToolCall, Transition, call_tool, replay


if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from hypothesis.strategies import SearchStrategy

    from ipistate.tools import Row


@attrs.frozen(kw_only=True)
class Scenario:
    """What a law is checked on."""

    environment: Environment
    calls: tuple[ToolCall, ...]
    tools: Mapping[str, Tool] = attrs.field(default=TOOLS, repr=False)
    drawn: tuple[Transition, ...] = attrs.field(default=(), repr=False)
    """What the calls did when a strategy made them: the first time, if at all."""

    def step(self, environment: Environment, call: ToolCall) -> Transition:
        """Execute one call with the scenario's tools."""
        return call_tool(environment, call.name, call.arguments, tools=self.tools)

    def run(
        self, environment: Environment | None = None, start: int = 0
    ) -> tuple[Transition, ...]:
        """Execute the calls from ``start`` on, in the scenario's world or another."""
        world = self.environment if environment is None else environment
        return tuple(replay(world, self.calls[start:], tools=self.tools))


def scenarios(
    records: Mapping[str, type[Row]],
    tools: Mapping[str, Tool] = TOOLS,
    others: Mapping[str, SearchStrategy[Any]] = COMMON,
) -> SearchStrategy[Scenario]:
    """Scenarios of a domain: sound worlds and damaged ones, up to eight calls.

    Args:
        records: Typed rows by collection, for well-formed tables.
        tools: The tools that are called.
        others: Strategies of collections without typed rows.
    """
    sound = worlds(records, others)
    any_world = st.one_of(sound, sound, damaged(sound))

    @st.composite
    def built(draw: st.DrawFn) -> Scenario:
        world = draw(any_world)
        calls, drawn = zip(*draw(made_calls(world, tools)), strict=True)
        return Scenario(environment=world, calls=calls, tools=tools, drawn=drawn)

    return built()
