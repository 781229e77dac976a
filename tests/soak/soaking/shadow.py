"""What a server must hold, by the pure functions: the shadow of every session.

Worlds are values, so the shadow of a checkpoint is a copy of two dictionaries, and going
back to it is another.
"""

from __future__ import annotations

import json

from base64 import b64decode
from collections.abc import Iterable

import attrs

from durability import lines_of
from local_server import LocalChannel
from traffic import SEED, VERIFY, Part, Sent

from ipistate.kernel.environment import Environment
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.records import SessionRecord
from ipistate.protocol.wire import SESSION_MEMBER


@attrs.frozen(kw_only=True)
class ShadowSession:
    """Who a session is; its world is told apart."""

    episode: EpisodeId
    part: Part
    cookie: bytes = b""
    """What its client got last; empty if a crash took the answer to its seed."""

    @property
    def session_id(self) -> str | None:
        """The id that the cookie carries."""
        if not self.cookie:
            return None
        payload = self.cookie.partition(b"=")[2].partition(b".")[0]
        found: str = json.loads(b64decode(payload))[SESSION_MEMBER]
        return found


@attrs.frozen
class Unanswered:
    """A request on its way: it may have taken effect, or not."""

    session: ShadowSession
    sent: Sent


@attrs.define
class Shadow:
    """The sessions by their rollouts, and what they must answer."""

    sessions: dict[str, ShadowSession] = attrs.field(factory=dict)
    unanswered: dict[str, Unanswered] = attrs.field(factory=dict)
    local: LocalChannel = attrs.field(factory=LocalChannel)
    _verdicts: dict[bytes, bytes] = attrs.field(factory=dict)

    async def answer(self, session: ShadowSession, sent: Sent) -> bytes:
        """Answer a request as a faultless server does, and keep what it changes."""
        name, worlds = session.episode.rollout_id, self.local.worlds
        if sent.route == SEED:
            self.sessions[name], worlds[name] = session, session.part.world
            return b"{}"
        if sent.route == VERIFY:
            del self.sessions[name], worlds[name]
            return await self._verdict(name, sent)
        self.sessions[name] = session
        return await self._told(name, sent)

    async def _verdict(self, name: str, sent: Sent) -> bytes:
        # It depends on the body alone.
        if sent.body not in self._verdicts:
            self._verdicts[sent.body] = await self._told(name, sent)
        return self._verdicts[sent.body]

    async def _told(self, name: str, sent: Sent) -> bytes:
        path = f"/ng-rollout/{name}/{sent.route}"
        return (await self.local.send("POST", path, sent.body)).content

    def cut(self) -> Cut:
        """Keep everything as it is now, when the server admits nothing."""
        worlds = dict(self.local.worlds)
        return Cut(dict(self.sessions), worlds, dict(self.unanswered))

    def go_back(self, cut: Cut) -> None:
        """Go on from a settled checkpoint, every episode as its next attempt."""
        self.sessions = {
            name: attrs.evolve(one, episode=one.episode.next_attempt)
            for name, one in cut.sessions.items()
        }
        self.local.worlds, self.unanswered = dict(cut.worlds), {}


@attrs.frozen
class Cut:
    """The shadow of a checkpoint."""

    sessions: dict[str, ShadowSession] = attrs.field(factory=dict)
    worlds: dict[str, Environment] = attrs.field(factory=dict)
    unanswered: dict[str, Unanswered] = attrs.field(factory=dict)

    async def settled(self, lines: Iterable[bytes]) -> tuple[Cut, list[str]]:
        """Compare with the records of the checkpoint, byte for byte.

        A request that had no answer yet is in them or not; they decide.

        Returns:
            The cut without doubts, and what differs.
        """
        found: dict[str, bytes] = {}
        settled, differences = Cut(), list[str]()
        for line in lines:
            name = json.loads(line)["episode_id"]["rollout_id"]
            if name in found:
                differences.append(f"{name} is twice in a checkpoint")
            found[name] = line
        for name in {**self.sessions, **self.unanswered}:
            line = found.pop(name, b"")
            states = [self._before(name), *await self._after(name)]
            for state in states:
                if _fits(state, line):
                    break
            else:
                state = states[0]
                differences.append(f"{name} differs in a checkpoint")
            if state is not None:
                settled.sessions[name], settled.worlds[name] = state
        differences += [f"{name} is in a checkpoint" for name in found]
        return settled, differences

    def _before(self, name: str) -> _State | None:
        known = self.sessions.get(name)
        return None if known is None else (known, self.worlds[name])

    async def _after(self, name: str) -> list[_State | None]:
        waiting = self.unanswered.get(name)
        if waiting is None:
            return []
        trial, before = Shadow(), self._before(name)
        if before is not None:
            trial.sessions[name], trial.local.worlds[name] = before
        await trial.answer(waiting.session, waiting.sent)
        return [trial.cut()._before(name)]


_State = tuple[ShadowSession, Environment]


def _fits(state: _State | None, line: bytes) -> bool:
    if state is None or not line:
        return state is None and not line
    session, world = state
    session_id = session.session_id or json.loads(line)[SESSION_MEMBER]
    record = SessionRecord(session.episode, session_id, world)
    return lines_of([record]) == [line]
