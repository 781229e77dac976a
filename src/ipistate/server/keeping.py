"""What the server keeps of a session: its world, or its world and how it came about.

The store holds immutable values and does not look inside; a *keeping* makes them, says
what a call makes of one, and in which form checkpoints carry it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import attrs

from ipistate.kernel import Environment
from ipistate.sessions import EnvironmentCodec, Session, SessionCodec


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ipistate.kernel import JsonObject
    from ipistate.server.observer import CallTool
    from ipistate.server.settings import ServerSettings
    from ipistate.sessions import StateCodec, Step
    from ipistate.tools import Tool

S = TypeVar("S")


class Keeping(Protocol[S]):
    """How the server keeps its sessions."""

    @property
    def codec(self) -> StateCodec[Any]:
        """How checkpoints write what ``exported`` gives."""
        ...

    def begin(self, seed: Environment) -> S:
        """Start a session."""
        ...

    def call(self, state: S, name: str, arguments: JsonObject) -> tuple[S, str]:
        """Make a call; returns the session after it, and what the model reads."""
        ...

    def history(self, state: S) -> Session | None:
        """Return how the session came about, if that is kept."""
        ...

    def exported(self, state: S) -> object:
        """Return what a checkpoint holds of a session; equal parts are the same object.

        A session that did not change gives the same object again.
        """
        ...

    def restored(self, exported: Any) -> S:
        """Go on from what a checkpoint held."""
        ...


@attrs.frozen
class Worlds:
    """Keeps the world only, as the reference does."""

    tools: Mapping[str, Tool]
    run: CallTool
    codec: StateCodec[Environment] = attrs.Factory(EnvironmentCodec)

    def begin(self, seed: Environment) -> Environment:
        """Start from a world."""
        return seed

    def call(
        self, state: Environment, name: str, arguments: JsonObject
    ) -> tuple[Environment, str]:
        """Make a call."""
        transition = self.run(state, name, arguments, tools=self.tools)
        return transition.environment, transition.output

    def history(self, state: Environment) -> None:  # noqa: ARG002 - a keeping's name
        """Return nothing."""
        return

    def exported(self, state: Environment) -> Environment:
        """Return the world."""
        return state

    def restored(self, exported: Environment) -> Environment:
        """Go on from a world."""
        return exported


@attrs.frozen
class Histories:
    """Keeps each session with its seed and its log; checkpoints carry the world now.

    The history of a restored session begins with the restore.
    """

    tools: Mapping[str, Tool]
    run: CallTool
    codec: StateCodec[Any] = attrs.Factory(EnvironmentCodec)

    def begin(self, seed: Environment) -> Session:
        """Start a log."""
        return Session(seed)

    def call(
        self, state: Session, name: str, arguments: JsonObject
    ) -> tuple[Session, str]:
        """Make a call and log it."""
        after = state.step(name, arguments, tools=self.tools, run=self.run)
        return after, after.log[-1].output

    def once(
        self, state: Session, key: str, name: str, arguments: JsonObject
    ) -> tuple[Session, Step]:
        """Make a call at most once.

        Raises:
            IdempotencyError: ``key_conflict``: the key was used for another call.
        """
        return state.once(key, name, arguments, tools=self.tools, run=self.run)

    def history(self, state: Session) -> Session:
        """Return the session."""
        return state

    def exported(self, state: Session) -> object:
        """Return the world now."""
        return state.environment

    def restored(self, exported: Any) -> Session:
        """Start a log at a world."""
        return Session(exported)


@attrs.frozen
class LastingHistories(Histories):
    """The same, but checkpoints carry the log, too, so that it outlives a restore."""

    def exported(self, state: Session) -> Session:
        """Return the whole session."""
        return state

    def restored(self, exported: Session) -> Session:
        """Go on with the log."""
        return exported


def keeping_of(settings: ServerSettings, run: CallTool) -> Keeping[Any]:
    """Return the keeping that an operator has chosen.

    Args:
        settings: What was chosen.
        run: What executes a tool call.
    """
    tools = settings.tools
    if not settings.extension:
        return Worlds(tools, run)
    if settings.checkpoint_state_version == 1:
        return Histories(tools, run)
    return LastingHistories(tools, run, SessionCodec(tools))
