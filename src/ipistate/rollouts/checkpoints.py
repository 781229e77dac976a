"""Checkpoints of a run: server and conversations together, taken and restored.

An episode moves while a request of it is on its way to the server. Everywhere else its
state is a value that agrees with its session: before and after a tool call, and for as
long as a policy thinks about a reply.
"""

from __future__ import annotations

import asyncio
import time

from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Final

import attrs

from ipistate.coordination import CoordinationError
from ipistate.errors import CheckpointError


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Generator, Mapping

    from ipistate.agents import AgentState
    from ipistate.clients import Coordinator
    from ipistate.protocol import EpisodeId
    from ipistate.rollouts.records import Records
    from ipistate.rollouts.store import Pair, Store

DEADLINE_SECONDS: Final = 60.0

_HURRY_SECONDS: Final = 2.0
"""How long a cancelled checkpoint may take to let the server go on."""

FAILURES: Final = (CoordinationError, CheckpointError)
"""What can keep a checkpoint from being taken or restored."""


def deadline() -> float:
    """Give a control call that begins now its deadline."""
    return time.time() + DEADLINE_SECONDS


async def freeze(coordinator: Coordinator, checkpoint_id: str) -> None:
    """Close admission and wait for the calls in flight.

    Raises:
        CoordinationError: The server cannot, or not in time.
    """
    prepared = await coordinator.prepare(checkpoint_id, deadline())
    if not prepared.ready:
        message = f"{checkpoint_id}: the server is not prepared in time"
        raise CoordinationError("not_prepared", message)


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@attrs.define(eq=False)
class Boundary:
    """The states of all live episodes, and a barrier that they stop at."""

    _states: dict[EpisodeId, AgentState] = attrs.field(
        factory=dict["EpisodeId", "AgentState"], init=False
    )
    _moving: int = attrs.field(default=0, init=False)
    _open: asyncio.Event = attrs.field(factory=_set, init=False)
    _still: asyncio.Event = attrs.field(factory=_set, init=False)

    def keep(self, episode: EpisodeId, state: AgentState) -> None:
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
    async def standing(self) -> AsyncGenerator[Mapping[EpisodeId, AgentState]]:
        """Close the barrier, wait until nothing moves, and give the states."""
        await self.opened()
        self._open.clear()
        try:
            await self._still.wait()
            yield dict(self._states)
        finally:
            self._open.set()


@attrs.define(eq=False, kw_only=True)
class Checkpoints:
    """Takes and restores the checkpoints of one run.

    Args:
        coordinator: Drives the server.
        store: Where they are written.
        boundary: Where the episodes stand still.
        records: The rows, which reach the disk before a checkpoint counts.
    """

    coordinator: Coordinator
    store: Store
    boundary: Boundary
    records: Records
    _number: int = attrs.field(
        init=False,
        default=attrs.Factory(lambda self: self.store.last_number(), takes_self=True),
    )

    async def take(self) -> int:
        """Write a checkpoint of all live episodes; without any there is nothing to do.

        Returns:
            How many episodes it has.

        Raises:
            CoordinationError: The server cannot; everything goes on as before.
            CheckpointError: Our part cannot be written.
            RunFileError: The rows cannot be brought to the disk.
        """
        async with self.boundary.standing() as held:
            if not held:
                return 0
            self._number += 1
            name = self.store.begin(self._number)
            try:
                await self._commit(name, held)
            except BaseException as error:
                # The server stays frozen until it is resumed. Nothing that goes wrong
                # here may hide why the checkpoint has failed or was cancelled.
                hurried = isinstance(error, asyncio.CancelledError)
                with suppress(CoordinationError, TimeoutError):
                    async with asyncio.timeout(_HURRY_SECONDS if hurried else None):
                        await self.coordinator.resume(name, deadline())
                raise
            await self.coordinator.resume(name, deadline())
        await asyncio.to_thread(self.store.prune)
        return len(held)

    async def _commit(self, name: str, held: Mapping[EpisodeId, AgentState]) -> None:
        await freeze(self.coordinator, name)
        path = self.store.path(self._number).absolute()
        await self.coordinator.commit(name, deadline(), path, held)
        await asyncio.to_thread(self._publish, held)

    def _publish(self, held: Mapping[EpisodeId, AgentState]) -> None:
        # An episode that has ended is in no checkpoint; its row must survive instead.
        self.records.sync()
        self.store.write(self._number, held)

    async def restore(
        self, pair: Pair, wanted: Collection[EpisodeId]
    ) -> Mapping[EpisodeId, AgentState]:
        """Install episodes of a pair in a fresh server, and checkpoint them at once.

        The second checkpoint has them under their new attempts, so these are never used
        for anything else.

        Args:
            pair: What was read from the store.
            wanted: The episodes of it that are to go on.

        Returns:
            The episodes under their next attempts.

        Raises:
            CoordinationError: The server cannot restore them.
            CheckpointError: The new checkpoint cannot be written.
        """
        name = f"{pair.checkpoint_id}-restore-{time.time_ns()}"
        done = await self.coordinator.restore(
            name, deadline(), pair.path.absolute(), wanted, allow_missing=True
        )
        await self.coordinator.resume(name, deadline())
        installed = frozenset(done.episodes)
        again = {
            episode.next_attempt: pair.held[episode]
            for episode in wanted
            if episode.next_attempt in installed
        }
        for episode, held in again.items():
            self.boundary.keep(episode, held)
        await self.take()
        return again

    async def clear(self, stale: Collection[EpisodeId]) -> None:
        """Free what earlier attempts have left in a server that has outlived them.

        Raises:
            CoordinationError: The server does not let them go.
        """
        status = (await self.coordinator.status()).answers[0].reply
        if status.checkpoint_id is not None:
            await self.coordinator.resume(status.checkpoint_id, deadline())
        name = f"{self.store.run}-clear-{time.time_ns()}"
        await self.coordinator.retire(name, deadline(), stale)
        rollouts = {episode.rollout_id for episode in stale}
        await self.coordinator.forget(f"{name}-forget", deadline(), rollouts)
