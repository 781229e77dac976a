"""A stateful test: branches of a session are stepped, forked, saved and rewound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule

from ipistate.checkpoint.state import IPICheckpointState
from ipistate.environment import Environment
from ipistate.testing.calls import tool_calls
from ipistate.testing.laws import LawBrokenError
from ipistate.testing.worlds import COMMON, worlds
from ipistate.tools import TOOLS, Tool
from ipistate.transition import ToolCall, call_tool, replay


if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypothesis.strategies import SearchStrategy

    from ipistate.tools.row import Row


@attrs.frozen
class Branch:
    """A world and how it came to be: the seed and the calls made since."""

    seed: Environment
    log: tuple[ToolCall, ...]
    environment: Environment


class WorldMachine(RuleBasedStateMachine):
    """Compares every branch with a replay of its own log.

    Whatever is done to other branches, and however often a branch was saved and
    restored, its world is the one that its log gives. Subclasses set ``records`` and,
    if need be, ``tools`` and ``others``; ``world_machine`` makes one.
    """

    records: ClassVar[Mapping[str, type[Row]]] = {}
    tools: ClassVar[Mapping[str, Tool]] = TOOLS
    others: ClassVar[Mapping[str, SearchStrategy[Any]]] = COMMON

    branches: Bundle[Branch] = Bundle("branches")

    @initialize(target=branches, data=st.data())
    def seed(self, data: st.DataObject) -> Branch:
        """Begin with any well-formed world."""
        world = data.draw(worlds(self.records, self.others))
        return self._checked(Branch(world, (), world))

    @rule(target=branches, branch=branches, data=st.data())
    def call(self, branch: Branch, data: st.DataObject) -> Branch:
        """Make a call; the branch from before stays usable, so this also forks."""
        call = data.draw(tool_calls(branch.environment, self.tools))
        step = call_tool(
            branch.environment, call.name, call.arguments, tools=self.tools
        )
        return self._checked(
            attrs.evolve(branch, log=(*branch.log, call), environment=step.environment)
        )

    @rule(target=branches, branch=branches)
    def save_and_restore(self, branch: Branch) -> Branch:
        """Go through a checkpoint's bytes."""
        saved = IPICheckpointState(branch.environment).to_json()
        restored = IPICheckpointState.from_json(saved).environment
        return self._checked(attrs.evolve(branch, environment=restored))

    @rule(target=branches, branch=branches, back=st.integers(1, 3))
    def rewind(self, branch: Branch, back: int) -> Branch:
        """Take back the last calls."""
        log = branch.log[:-back]
        return self._checked(
            attrs.evolve(branch, log=log, environment=self._of(branch.seed, log))
        )

    @rule(branch=branches)
    def recall(self, branch: Branch) -> None:
        """Look at an old branch again: nothing may have reached it."""
        self._checked(branch)

    def _of(self, seed: Environment, log: tuple[ToolCall, ...]) -> Environment:
        world = seed
        for step in replay(seed, log, tools=self.tools):
            world = step.environment
        return world

    def _checked(self, branch: Branch) -> Branch:
        expected = self._of(branch.seed, branch.log).to_json()
        if branch.environment.to_json() != expected:
            raise LawBrokenError(f"a branch is not what its log gives: {branch!r}")
        return branch


def world_machine(
    records: Mapping[str, type[Row]],
    tools: Mapping[str, Tool] = TOOLS,
    others: Mapping[str, SearchStrategy[Any]] = COMMON,
) -> type[WorldMachine]:
    """Make the machine of a domain; its ``TestCase`` is what pytest collects."""
    members = {"records": records, "tools": tools, "others": others}
    return type("DomainMachine", (WorldMachine,), members)
