"""A stage for scripts: nothing happens until the script says so."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from ipistate.protocol.episode import EpisodeId
from simulator.disk import Disk
from simulator.ledger import Ledger, require
from simulator.process import Kind, Process, Request


if TYPE_CHECKING:
    from ipistate.protocol.actions import Reply
    from ipistate.protocol.operations import (
        Call,
    )


class Crash(Exception):
    """The process dies here and now."""


class Stage:
    """Surrounds a process; ``pending`` is what it has begun and not finished."""

    def __init__(self) -> None:
        """Set up a fresh process with an empty disk."""
        self.now, self.disk, self.ledger = 1000.0, Disk(), Ledger()
        self.numbers = count(1)
        self.replies: dict[int, Reply] = {}
        self.statuses: dict[int, Any] = {}
        self.is_failing = False
        self.is_quick = True
        self.fuse: int | None = None
        self._begin()

    def _begin(self) -> None:
        self.pending: list[tuple[str, Callable[..., object], Any]] = []
        self.timer: float | None = None
        self.process = Process(self)

    # -- what the process asks for

    def later(self, step: str, function: Callable[..., None], *args: object) -> None:
        """Keep a step until the script lets it happen."""
        self.pending.append((step, function, args))

    def fails(self, _: str) -> bool:
        """Let a step fail if the script wants the next one to."""
        failing, self.is_failing = self.is_failing, False
        return failing

    def frees_at_once(self) -> bool:
        """Drop worlds at once unless the script wants it slow."""
        return self.is_quick

    def performing(self, _: object) -> None:
        """Die if the script wants the process to, before this action."""
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                raise Crash

    def set_timer(self, at: float | None) -> None:
        """Remember when the timer fires."""
        self.timer = at

    def replied(self, call: int, reply: Reply) -> None:
        """Remember a reply."""
        self.replies[call] = reply

    def answered(self, request: Request, status: int | None) -> None:
        """Remember a request's status."""
        self.statuses[request.number] = status

    # -- what the script does

    def _do(self, function: Callable[..., object], *args: object) -> None:
        try:
            function(*args)
        except Crash:
            self.crash()

    def request(
        self,
        kind: Kind,
        session: str = "s",
        episode: str | None = None,
        outcome: int | None = 200,
    ) -> int:
        """Bring a request to the gate; returns its number."""
        named = EpisodeId.from_capture_key(episode) if episode else None
        number = next(self.numbers)
        self._do(
            self.process.arrive, Request(number, Kind(kind), session, named, outcome)
        )
        return number

    def call(
        self, operation: type[Call], name: str, deadline: float = 30.0, **members: Any
    ) -> int:
        """Make a control call; returns its number."""
        if members.get("episode_ids") is not None:
            keys = members["episode_ids"]
            members["episode_ids"] = tuple(map(EpisodeId.from_capture_key, keys))
        body = operation(checkpoint_id=name, deadline_ts=self.now + deadline, **members)
        number = next(self.numbers)
        self._do(self.process.call, number, body)
        return number

    def happen(self, place: int = 0) -> None:
        """Let something that is pending happen."""
        _, function, args = self.pending.pop(place % len(self.pending))
        self._do(function, *args)

    def finish(self) -> None:
        """Let all that is pending happen, and what comes of it."""
        while self.pending:
            self.happen()

    def leave(self, number: int) -> None:
        """Let the client of a request go away."""
        self._do(self.process.disconnect, number)

    def drop(self, call: int) -> None:
        """Let the caller of a control call go away."""
        self._do(self.process.drop, call)

    def pass_time(self, seconds: float, is_late: bool = False) -> None:  # noqa: FBT002
        """Let time pass; a timer that is due fires, or is late."""
        self.now += seconds
        if self.timer is not None and self.timer <= self.now and not is_late:
            self.tick()

    def tick(self) -> None:
        """Let the timer fire, even if it is early."""
        self._do(self.process.tick)

    def crash(self, is_lost: bool = False) -> None:  # noqa: FBT002
        """End the process and start another; what was not synced may be lost."""
        self.fuse, self.is_failing = None, False
        self.disk.lose_power(lambda: is_lost)
        self.ledger.crashed()
        self._begin()

    def rest(self) -> None:
        """Let everything come to an end; nobody may be left waiting."""
        self.fuse, self.is_failing = None, False
        for _ in range(20):
            self.finish()
            self.pass_time(1000.0)
        process = self.process
        require(not process.calls, "a call waits forever")
        require(not process.waiting, "a request waits forever")
        require(not process.running, "a request stays in flight")
        require(process.phase == "idle", "a participant stays closed")
        require(self.timer is None, "a timer stays armed")
