"""The clients of one server: they send requests and compare every reply."""

from __future__ import annotations

import asyncio

from typing import TYPE_CHECKING, Final

import attrs

from client import Connection
from shadow import ShadowSession, Unanswered
from traffic import SEED, VERIFY, Sent

from ipistate.protocol.wire import prefixed


if TYPE_CHECKING:
    from state import SoakState


CLIENTS: Final = 16
_BY_PREFIX: Final = 0.1
"""Part of the calls that name their session by its episode, without the cookie."""


@attrs.define
class Clients:
    """All clients of a server; each has sessions of its own, so none of theirs cross."""

    state: SoakState
    is_over: bool = attrs.field(default=False, init=False)
    """Set it and they stop, each after its reply or with its connection."""
    _left: int = attrs.field(default=0, init=False)
    _enough: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    def begin(self, group: asyncio.TaskGroup, port: int) -> None:
        """Let all of them send."""
        for client in range(CLIENTS):
            group.create_task(self._work(port, client))

    async def answered(self, count: int) -> None:
        """Wait for so many replies."""
        self._left = count
        self._enough.clear()
        await self._enough.wait()

    async def _work(self, port: int, client: int) -> None:
        mine = [*self.state.shadow.sessions][client::CLIENTS]
        share = max(1, (self.state.sessions + client) // CLIENTS)
        connection = await Connection.open(port)
        try:
            while not self.is_over:
                session, sent = self._draw(mine, share)
                await self._ask(connection, session, sent)
                if sent.route == VERIFY:
                    mine.remove(session.episode.rollout_id)
        except ConnectionError:
            if not self.is_over:
                raise
        finally:
            connection.close()

    def _draw(self, mine: list[str], share: int) -> tuple[ShadowSession, Sent]:
        state = self.state
        while len(mine) >= share:
            place = state.random.randrange(len(mine))
            session = state.shadow.sessions.get(mine[place])
            if session is not None:
                return session, session.part.draw(state.random, state.tally["replies"])
            mine.pop(place)  # it was retired
        session = state.new_session()
        mine.append(session.episode.rollout_id)
        return session, session.part.seed

    async def _ask(
        self, connection: Connection, session: ShadowSession, sent: Sent
    ) -> None:
        """Send one request, and compare status, reply and session with the shadow's."""
        state, name = self.state, session.episode.rollout_id
        state.shadow.unanswered[name] = Unanswered(session, sent)
        by_prefix = sent.route == SEED or state.random.random() < _BY_PREFIX
        connection.cookie = b"" if by_prefix else session.cookie
        episode = None if connection.cookie else session.episode
        path = prefixed(f"/{sent.route}", episode)
        connection.send(connection.head(b"POST", path, len(sent.body), ()) + sent.body)
        status, reply = await connection.answer()
        told = attrs.evolve(session, cookie=connection.cookie)
        expected = await state.shadow.answer(told, sent)
        del state.shadow.unanswered[name]
        if (status, reply) != (200, expected):
            text = f"{name}, {sent}: {status} {reply!r}, expected {expected!r}"
            state.differ("replies", text)
        if session.cookie and told.session_id != session.session_id:
            state.differ("replies", f"{name}, {sent.route}: another session answers")
        self._count()

    def _count(self) -> None:
        self.state.tally["replies"] += 1
        self._left -= 1
        if self._left <= 0:
            self._enough.set()
