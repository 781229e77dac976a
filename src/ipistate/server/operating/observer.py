"""What a server tells its observers."""

from __future__ import annotations

from collections.abc import Callable, Sized
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ipistate.tools import Transition


if TYPE_CHECKING:
    from starlette.routing import Route

    from ipistate.kernel import JsonObject

CallTool: TypeAlias = Callable[..., Transition]


class WorkStage(StrEnum):
    """The parts of a checkpoint's work that are measured on their own."""

    EXPORT = "export"
    """Encoding the states."""
    WRITE = "write"
    """Files, without the encoding."""
    READ = "read"
    """Files, and decoding the states."""
    INSTALL = "install"


class Watched(Protocol):
    """What an observer may look at: the state of a running server."""

    @property
    def sessions(self) -> Sized:
        """The live sessions."""
        ...

    @property
    def waiting(self) -> int:
        """How many requests wait for a checkpoint to end."""
        ...

    def status(self) -> JsonObject:
        """Describe the participant now."""
        ...


class Observer:
    """Watches nothing; a subclass keeps what it wants to know.

    ``worked`` and ``published`` are called from other threads, too.
    """

    def routes(self, watched: Watched) -> list[Route]:  # noqa: ARG002
        """Learn what to watch, and return the routes that show it."""
        return []

    def watching(self) -> AbstractContextManager[None]:
        """Watch the process while the server runs."""
        return nullcontext()

    def counting(self, call_tool: CallTool) -> CallTool:
        """Return the function that executes tool calls, perhaps one that counts."""
        return call_tool

    def refused(self, code: str) -> None:
        """Note a refusal."""

    def foreign(self) -> None:
        """Note that a request's prefix and its cookie are of different rollouts."""

    def swept(self, sessions: int) -> None:
        """Note that idle sessions have been freed."""

    def leaked(self, sessions: int) -> None:
        """Note how many live sessions a commit's scope does not name."""

    def worked(self, stage: WorkStage, seconds: float, size: int) -> None:
        """Note that a part of a checkpoint's work is done; ``size`` is in bytes."""

    def published(self) -> None:
        """Note that a checkpoint has been published."""
