"""One server with all the sessions, from its start until it is killed or ends."""

from __future__ import annotations

import asyncio
import shutil
import time

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Final, Literal, TypeVar

import attrs

from shadow import Shadow
from state import Kept, SoakState

from clients import Clients
from ipistate.demo.workplace import INSTANCE, DemoServer
from ipistate.errors import CheckpointError
from ipistate.protocol.records import KIND
from ipistate.rollouts import deadline, freeze
from ipistate.storage.checkpoint_directory import GYM, CheckpointDirectory


Kill = Literal["commit", "restore", "traffic"]
T = TypeVar("T")
_LONGER: Final = 1.2
"""Moments reach beyond what the operation takes, to meet its end as well."""
_RETIRED: Final = 0.01
"""Part of the sessions that is retired after each checkpoint."""


@attrs.define
class Life:
    """One server.

    Args:
        state: What outlives it.
        server: It.
        root: Where its checkpoints are.
        kill: What it dies of, if anything.
    """

    state: SoakState
    server: DemoServer
    root: Path
    kill: Kill | None
    clients: Clients = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make the clients, which wait."""
        self.clients = Clients(self.state)

    async def restore(self) -> bool:
        """Install the newest checkpoint; False if the server was killed meanwhile."""
        state = self.state
        if state.kept is None:
            state.shadow = Shadow()
            return True
        if not state.kept.is_settled:
            state.kept = await self._settled(state.kept)
        directory, cut = state.kept.directory, state.kept.cut
        episodes = [one.episode for one in cut.sessions.values()]
        work = self.server.restore(self._name("restore"), directory, episodes)
        restored = await self._operate("restore", work, is_fatal=self.kill == "restore")
        state.shadow.go_back(cut)
        if restored is not None:
            state.tally["restores"] += 1
            going_on = state.shadow.sessions.values()
            if sorted(restored) != sorted(one.episode.capture_key for one in going_on):
                state.differ("restores", "a restore told other episodes")
        return not self.clients.is_over

    async def serve(self, stop: Callable[[], bool]) -> None:
        """Let clients send requests, and take checkpoints meanwhile.

        Args:
            stop: Tells that the server need not live for all of its rounds.
        """
        port = int(self.server.process.url.rpartition(":")[2])
        async with asyncio.TaskGroup() as group:
            self.clients.begin(group, port)
            for number in range(self.state.rounds):
                is_last = number + 1 == self.state.rounds or stop()
                await self._round(number, is_fatal=is_last and self.kill is not None)
                if is_last:
                    break
            self.clients.is_over = True

    async def end(self) -> None:
        """Compare all that the server holds at last with the shadow."""
        state = self.state
        await self._checkpoint(self._name("end"), is_fatal=False)
        if state.kept is not None:
            state.kept = await self._settled(state.kept)
        if await self.server.sessions() != len(state.shadow.sessions):
            state.differ("sessions", "the server has another number at the end")

    def _name(self, what: str) -> str:
        return f"{what}-{self.state.tally['servers']}"

    async def _round(self, number: int, *, is_fatal: bool) -> None:
        state = self.state
        if is_fatal and self.kill == "traffic":
            await self.clients.answered(state.kills.randrange(state.calls))
            await self._die()
            return
        await self.clients.answered(state.calls)
        state.usage.take(
            self.server.process.pid,
            life=state.tally["servers"],
            number=number,
            sessions=len(state.shadow.sessions),
            replies=state.tally["replies"],
        )
        await self._checkpoint(self._name(f"checkpoint-{number}"), is_fatal=is_fatal)
        if not is_fatal:
            await self._retire(self._name(f"retire-{number}"))

    async def _checkpoint(self, name: str, *, is_fatal: bool) -> None:
        state, directory = self.state, self.root / name
        await freeze(self.server.coordinator, name)
        cut = state.shadow.cut()
        episodes = [one.episode for one in cut.sessions.values()]
        work = self.server.commit(name, directory, episodes)
        answered = await self._operate("commit", work, is_fatal=is_fatal)
        if _is_published(directory):
            state.tally["commits"] += 1
            if state.kept is not None:
                shutil.rmtree(state.kept.directory)
            state.kept = Kept(directory, cut)
        elif answered is not None:
            state.differ("commits", f"{name} was committed and is not there")
        if not is_fatal:
            await self.server.coordinator.resume(name, deadline())

    async def _retire(self, name: str) -> None:
        shadow, coordinator = self.state.shadow, self.server.coordinator
        count = int(len(shadow.sessions) * _RETIRED)
        drawn = self.state.random.sample(sorted(shadow.sessions), count)
        gone = [one for one in drawn if one not in shadow.unanswered]
        episodes = [shadow.sessions.pop(one).episode for one in gone]
        for one in gone:
            del shadow.local.worlds[one]
        await coordinator.retire(name, deadline(), episodes)
        await coordinator.forget(name, deadline(), gone)
        self.state.tally["retired"] += len(gone)

    async def _operate(
        self,
        operation: Literal["commit", "restore"],
        work: Coroutine[object, object, T],
        *,
        is_fatal: bool,
    ) -> T | None:
        """Wait for an operation, or kill the server at some moment of it."""
        state, began = self.state, time.perf_counter()
        if not is_fatal:
            done = await work
            state.usual[operation] = time.perf_counter() - began
            return done
        # Until a restore has been timed, a commit's time stands for it.
        usual = state.usual.get(operation, state.usual.get("commit", 0.1))
        task = asyncio.ensure_future(work)
        await asyncio.wait({task}, timeout=state.kills.random() * usual * _LONGER)
        is_answered = task.done()
        await self._die()
        task.cancel()
        state.tally[f"{operation}s answered before the kill"] += is_answered
        return task.result() if is_answered else None

    async def _die(self) -> None:
        self.clients.is_over = True
        await self.server.process.kill()

    async def _settled(self, kept: Kept) -> Kept:
        manifest = CheckpointDirectory(kept.directory, INSTANCE).read_manifest()
        file = kept.directory / GYM / KIND / INSTANCE / manifest.records_file
        with file.open("rb") as lines:
            cut, differences = await kept.cut.settled(lines)
        self.state.tally["records compared"] += manifest.record_count
        self.state.tally["doubts settled"] += len(kept.cut.unanswered)
        for text in differences:
            self.state.differ("records", text)
        return Kept(kept.directory, cut, is_settled=True)


def _is_published(directory: Path) -> bool:
    try:
        CheckpointDirectory(directory, INSTANCE).read_manifest()
    except CheckpointError:
        return False
    return True
