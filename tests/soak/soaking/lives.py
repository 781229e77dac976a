"""Servers that live one after the other, each until it is killed, with the same sessions."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time

from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

import attrs

from client import Connection
from shadow import Cut, Shadow, ShadowSession, Unanswered
from traffic import SEED, Part, Sent
from usage import Usage

from ipistate.demo.workplace import INSTANCE, DemoServer, Workplace
from ipistate.errors import CheckpointError
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.records import KIND
from ipistate.protocol.wire import prefixed
from ipistate.rollouts import deadline, freeze
from ipistate.storage.checkpoint_directory import GYM, CheckpointDirectory


Kill = Literal["commit", "restore", "traffic"]
CLIENTS: Final = 16
_LONGER: Final = 1.2
"""Moments reach beyond what the operation takes, to meet its end as well."""
_RETIRED: Final = 0.01
"""Part of the sessions that is retired after each checkpoint."""
_MOST_TOLD: Final = 50


@attrs.frozen
class Kept:
    """The newest checkpoint that is complete."""

    directory: Path
    cut: Cut
    is_settled: bool = False


@attrs.define(kw_only=True)
class Soak:
    """Sessions that outlive their servers.

    Args:
        place: Where the servers run.
        parts: What is sent.
        sessions: How many there are at a time.
        rounds: Checkpoints of each server; the last may kill it.
        calls: Requests from one checkpoint to the next.
        random: Decides everything but the order of replies.
        kills: Decides what servers die of, whatever the order of replies.
    """

    place: Workplace
    parts: tuple[Part, ...]
    sessions: int
    rounds: int
    calls: int
    random: Random
    kills: Random
    usage: Usage = attrs.field(factory=Usage, init=False)
    tally: Counter[str] = attrs.field(factory=Counter, init=False)
    differences: list[str] = attrs.field(factory=list, init=False)
    shadow: Shadow = attrs.field(factory=Shadow, init=False)
    kept: Kept | None = attrs.field(default=None, init=False)
    usual: dict[str, float] = attrs.field(factory=Counter, init=False)
    """Seconds of each operation the last time that it was left alone."""

    def draw_kill(self) -> Kill:
        """Choose what the next server dies of."""
        if self.kept is None:
            return "commit"
        return self.kills.choices(("commit", "restore", "traffic"), (9, 9, 2))[0]

    async def live(self, kill: Kill | None, stop: Callable[[], bool]) -> None:
        """Start a server, go on with the sessions in it, and kill it or end in order.

        Args:
            kill: What it dies of.
            stop: Tells that it need not live for all of its rounds.
        """
        self.tally["servers"] += 1
        async with self.place.served(f"server-{self.tally['servers']}") as server:
            life = Life(self, server, kill)
            if await life.restore():
                await life.serve(stop)
            if kill is None:
                await life.end()
        if kill is not None:
            self.tally["kills"] += 1
            self.tally[f"killed in {kill}"] += 1

    def differ(self, text: str) -> None:
        """Note a difference."""
        self.tally["differences"] += 1
        if len(self.differences) < _MOST_TOLD:
            self.differences.append(text)
            sys.stderr.write(f"DIFFERENCE: {text}\n")

    def new_session(self) -> ShadowSession:
        """Name the next rollout."""
        self.tally["episodes"] += 1
        episode = EpisodeId(f"soak-{self.tally['episodes']}")
        return ShadowSession(episode=episode, part=self.random.choice(self.parts))


@attrs.define
class Life:
    """One server, from its start to its death."""

    soak: Soak
    server: DemoServer
    kill: Kill | None
    is_over: bool = attrs.field(default=False, init=False)
    _left: int = attrs.field(default=0, init=False)
    _enough: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    async def restore(self) -> bool:
        """Install the newest checkpoint; False if the server was killed meanwhile."""
        soak = self.soak
        if soak.kept is None:
            soak.shadow = Shadow()
            return True
        if not soak.kept.is_settled:
            soak.kept = await self._settled(soak.kept)
        directory, cut = soak.kept.directory, soak.kept.cut
        episodes = [one.episode for one in cut.sessions.values()]
        name = f"restore-{soak.tally['servers']}"
        work = self.server.restore(name, directory, episodes)
        restored = await self._operate("restore", work, is_fatal=self.kill == "restore")
        soak.shadow.go_back(cut)
        if restored is not None:
            soak.tally["restores"] += 1
            keys = sorted(
                one.episode.capture_key for one in soak.shadow.sessions.values()
            )
            if keys != sorted(restored):
                soak.differ("a restore told other episodes")
        return not self.is_over

    async def serve(self, stop: Callable[[], bool]) -> None:
        """Take requests, and checkpoints in between."""
        port = int(self.server.process.url.rpartition(":")[2])
        async with asyncio.TaskGroup() as group:
            for client in range(CLIENTS):
                group.create_task(self._work(port, client))
            for number in range(self.soak.rounds):
                is_last = number + 1 == self.soak.rounds or stop()
                await self._round(number, is_last=is_last)
                if is_last:
                    break
            self.is_over = True

    async def end(self) -> None:
        """Compare all that the server holds at last with the shadow."""
        await self._checkpoint("at-the-end", is_fatal=False)
        kept = self.soak.kept
        assert kept is not None
        self.soak.kept = await self._settled(kept)
        if await self.server.sessions() != len(self.soak.shadow.sessions):
            self.soak.differ("the server has another number of sessions at the end")

    async def _round(self, number: int, *, is_last: bool) -> None:
        soak = self.soak
        is_fatal = is_last and self.kill is not None
        if is_fatal and self.kill == "traffic":
            await self._answered(soak.random.randrange(soak.calls))
            await self._die()
            return
        await self._answered(soak.calls)
        life, replies = soak.tally["servers"], soak.tally["replies"]
        sessions = len(soak.shadow.sessions)
        soak.usage.take(self.server.process.pid, life, number, sessions, replies)
        await self._checkpoint(f"checkpoint-{life}-{number}", is_fatal=is_fatal)
        if not self.is_over:
            await self._retire(f"retire-{life}-{number}")

    async def _checkpoint(self, name: str, *, is_fatal: bool) -> None:
        soak, directory = self.soak, self.soak.place.root / name
        await freeze(self.server.coordinator, name)
        cut = soak.shadow.cut()
        episodes = [one.episode for one in cut.sessions.values()]
        work = self.server.commit(name, directory, episodes)
        answered = await self._operate("commit", work, is_fatal=is_fatal)
        if _is_published(directory):
            soak.tally["commits"] += 1
            if soak.kept is not None:
                shutil.rmtree(soak.kept.directory)
            soak.kept = Kept(directory, cut)
        elif answered is not None:
            soak.differ(f"{name} was committed and is not there")
        if not self.is_over:
            await self.server.coordinator.resume(name, deadline())

    async def _retire(self, name: str) -> None:
        shadow = self.soak.shadow
        count = int(len(shadow.sessions) * _RETIRED)
        drawn = self.soak.random.sample(sorted(shadow.sessions), count)
        gone = [one for one in drawn if one not in shadow.unanswered]
        episodes = [shadow.sessions.pop(one).episode for one in gone]
        for one in gone:
            del shadow.local.worlds[one]
        await self.server.coordinator.retire(name, deadline(), episodes)
        await self.server.coordinator.forget(name, deadline(), gone)
        self.soak.tally["retired"] += len(gone)

    async def _operate(
        self, operation: str, work: Coroutine[Any, Any, Any], *, is_fatal: bool
    ) -> Any:
        """Wait for an operation, or kill the server at some moment of it."""
        usual, began = self.soak.usual, time.perf_counter()
        if not is_fatal:
            done = await work
            usual[operation] = time.perf_counter() - began
            return done
        # Until a restore has been timed, a commit's time stands for it.
        longest = (usual[operation] or usual["commit"] or 0.1) * _LONGER
        task = asyncio.create_task(work)
        await asyncio.wait({task}, timeout=self.soak.kills.random() * longest)
        is_answered = task.done()
        await self._die()
        task.cancel()
        self.soak.tally[f"{operation}s answered before the kill"] += is_answered
        return task.result() if is_answered else None

    async def _die(self) -> None:
        self.is_over = True
        await self.server.process.kill()

    async def _settled(self, kept: Kept) -> Kept:
        manifest = CheckpointDirectory(kept.directory, INSTANCE).read_manifest()
        file = kept.directory / GYM / KIND / INSTANCE / manifest.records_file
        with file.open("rb") as lines:
            cut, differences = await kept.cut.settled(lines)
        self.soak.tally["records"] += manifest.record_count
        self.soak.tally["settled"] += len(kept.cut.unanswered)
        for text in differences:
            self.soak.differ(text)
        return Kept(kept.directory, cut, is_settled=True)

    async def _answered(self, count: int) -> None:
        """Wait for so many replies."""
        self._left = count
        self._enough.clear()
        await self._enough.wait()

    async def _work(self, port: int, client: int) -> None:
        # Each client has sessions of its own, so no two requests of one cross.
        shadow = self.soak.shadow
        mine = [*shadow.sessions][client::CLIENTS]
        connection = await Connection.open(port)
        try:
            while not self.is_over:
                session, sent = self._draw(mine, client)
                await self._ask(connection, session, sent)
        except ConnectionError:
            if not self.is_over:
                raise
        finally:
            connection.close()

    def _draw(self, mine: list[str], client: int) -> tuple[ShadowSession, Sent]:
        soak = self.soak
        share = (soak.sessions + client) // CLIENTS
        while len(mine) >= share:
            place = soak.random.randrange(len(mine))
            session = soak.shadow.sessions.get(mine[place])
            if session is not None:
                return session, session.part.draw(soak.random, soak.tally["replies"])
            mine[place] = mine[-1]  # it has ended
            mine.pop()
        session = soak.new_session()
        mine.append(session.episode.rollout_id)
        return session, session.part.seed

    async def _ask(
        self, connection: Connection, session: ShadowSession, sent: Sent
    ) -> None:
        """Send one request, and compare status, reply and session with the shadow's."""
        soak, name = self.soak, session.episode.rollout_id
        soak.shadow.unanswered[name] = Unanswered(session, sent)
        # A seed, and some of the calls, name their session by the episode alone.
        by_prefix = sent.route == SEED or soak.random.random() < 0.1
        connection.cookie = b"" if by_prefix else session.cookie
        episode = None if connection.cookie else session.episode
        path = prefixed(f"/{sent.route}", episode)
        connection.send(connection.head(b"POST", path, len(sent.body), ()) + sent.body)
        status, reply = await connection.answer()
        told = attrs.evolve(session, cookie=connection.cookie)
        expected = await soak.shadow.answer(told, sent)
        del soak.shadow.unanswered[name]
        if (status, reply) != (200, expected):
            soak.differ(f"{name}, {sent}: {status} {reply!r}, expected {expected!r}")
        if session.cookie and told.session_id != session.session_id:
            soak.differ(f"{name}, {sent.route}: another session answers")
        soak.tally["replies"] += 1
        self._left -= 1
        if self._left <= 0:
            self._enough.set()


def _is_published(directory: Path) -> bool:
    try:
        CheckpointDirectory(directory, INSTANCE).read_manifest()
    except CheckpointError:
        return False
    return True
