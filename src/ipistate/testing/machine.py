"""A stateful test: branches of a session are stepped, forked, saved and rewound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule

from ipistate.sessions import (
    IPICheckpointState,
    Session,
    session_from_json,
    session_to_json,
)
from ipistate.testing.calls import tool_calls
from ipistate.testing.laws import LawBrokenError
from ipistate.testing.worlds import COMMON, worlds
from ipistate.tools import TOOLS, Tool, call_tool


if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypothesis.strategies import SearchStrategy

    from ipistate.tools import Row


class WorldMachine(RuleBasedStateMachine):
    """Compares every branch with a replay of its own log.

    Whatever is done to other branches, and however often a branch was saved and
    restored, its replies and worlds are those that its log gives. Subclasses set ``records`` and,
    if need be, ``tools`` and ``others``; ``world_machine`` makes one.
    """

    records: ClassVar[Mapping[str, type[Row]]] = {}
    tools: ClassVar[Mapping[str, Tool]] = TOOLS
    others: ClassVar[Mapping[str, SearchStrategy[Any]]] = COMMON

    branches: Bundle[Session] = Bundle("branches")

    @initialize(target=branches, data=st.data())
    def seed(self, data: st.DataObject) -> Session:
        """Begin with any well-formed world."""
        return self._checked(Session(data.draw(worlds(self.records, self.others))))

    @rule(target=branches, branch=branches, data=st.data())
    def call(self, branch: Session, data: st.DataObject) -> Session:
        """Make a call; the branch from before stays usable, so this also forks."""
        call = data.draw(tool_calls(branch.environment, self.tools))
        return self._checked(branch.step(call.name, call.arguments, tools=self.tools))

    @rule(target=branches, branch=branches, key=st.sampled_from("abc"), data=st.data())
    def call_once(self, branch: Session, key: str, data: st.DataObject) -> Session:
        """Make a call under a key, or the same call again if the key was used."""
        call = data.draw(tool_calls(branch.environment, self.tools))
        for step in branch.log:
            call = step.call if step.key == key else call
        after, step = branch.once(key, call.name, call.arguments, tools=self.tools)
        again = after.once(key, call.name, call.arguments, tools=self.tools)
        if step.key == key and (again[0] is not after or again[1] is not step):
            raise LawBrokenError(f"a call was made twice under one key: {call!r}")
        return self._checked(after)

    @rule(target=branches, branch=branches)
    def save_and_restore(self, branch: Session) -> Session:
        """Go through a checkpoint's bytes, the log included."""
        saved = session_to_json(branch)
        return self._checked(session_from_json(saved, tools=self.tools))

    @rule(target=branches, branch=branches)
    def restore_world(self, branch: Session) -> Session:
        """Go on with a world from a checkpoint's bytes, the log being remembered."""
        saved = IPICheckpointState(branch.environment).to_json()
        world = IPICheckpointState.from_json(saved).environment
        if not branch.log:
            return self._checked(Session(world))
        last = attrs.evolve(branch.log[-1], environment=world)
        return self._checked(attrs.evolve(branch, log=(*branch.log[:-1], last)))

    @rule(target=branches, branch=branches, back=st.integers(1, 3))
    def rewind(self, branch: Session, back: int) -> Session:
        """Take back the last calls."""
        return self._checked(branch.rewind(min(back, len(branch.log))))

    @rule(branch=branches)
    def recall(self, branch: Session) -> None:
        """Look at an old branch again: nothing may have reached it."""
        self._checked(branch)

    def _checked(self, branch: Session) -> Session:
        world = branch.seed
        for step in branch.log:
            call = step.call
            made = call_tool(world, call.name, call.arguments, tools=self.tools)
            same = made.output == step.output and made.error == step.error
            if not same or made.environment.to_json() != step.environment.to_json():
                raise LawBrokenError(f"a branch is not what its log gives: {branch!r}")
            world = made.environment
        return branch


def world_machine(
    records: Mapping[str, type[Row]],
    tools: Mapping[str, Tool] = TOOLS,
    others: Mapping[str, SearchStrategy[Any]] = COMMON,
) -> type[WorldMachine]:
    """Make the machine of a domain; its ``TestCase`` is what pytest collects."""
    members = {"records": records, "tools": tools, "others": others}
    return type("DomainMachine", (WorldMachine,), members)
