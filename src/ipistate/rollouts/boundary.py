"""Turn boundaries: where an episode can stand still, and how all of them do.

An episode moves while a request of it is on its way to the server. Everywhere else its
state is a value that agrees with its session: before and after a tool call, and for as
long as a policy thinks about a reply.
"""

from __future__ import annotations

import asyncio

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

import attrs


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Mapping

    from ipistate.protocol import EpisodeId

S = TypeVar("S")


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@attrs.define(eq=False)
class Boundary(Generic[S]):
    """The states of all live episodes, and a barrier that they stop at."""

    _states: dict[EpisodeId, S] = attrs.field(factory=dict["EpisodeId", S], init=False)
    _moving: int = attrs.field(default=0, init=False)
    _open: asyncio.Event = attrs.field(factory=_set, init=False)
    _still: asyncio.Event = attrs.field(factory=_set, init=False)

    @property
    def states(self) -> Mapping[EpisodeId, S]:
        """The states now, which agree with the server's while nothing moves."""
        return dict(self._states)

    def keep(self, episode: EpisodeId, state: S) -> None:
        """Note what an episode is at."""
        self._states[episode] = state

    def drop(self, episode: EpisodeId) -> None:
        """Forget an episode that has no session any more."""
        self._states.pop(episode, None)

    async def opened(self) -> None:
        """Wait for as long as the barrier is closed."""
        while not self._open.is_set():
            await self._open.wait()

    @contextmanager
    def moving(self) -> Generator[None]:
        """Move, right after ``opened``; the state is noted before the context ends."""
        self._moving += 1
        self._still.clear()
        try:
            yield
        finally:
            self._moving -= 1
            if not self._moving:
                self._still.set()

    @asynccontextmanager
    async def standing(self) -> AsyncGenerator[Mapping[EpisodeId, S]]:
        """Close the barrier, wait until nothing moves, and give the states."""
        await self.opened()
        self._open.clear()
        try:
            await self._still.wait()
            yield self.states
        finally:
            self._open.set()
