"""A model of the server's process: the machine, the worlds, and who performs actions.

A world is the tuple of the numbers of the calls it accepted, so every effect can be
counted. The process ends with a crash; only the disk stays.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import attrs

from ipistate.errors import CheckpointError
from ipistate.protocol import (
    ParticipantState,
    ResourcesPart,
    Settings,
    handle,
    participant_status,
)
from ipistate.protocol import actions as do
from ipistate.protocol import events as on
from ipistate.protocol.participant import Phase
from simulator.disk import StopFlag
from simulator.ledger import require


if TYPE_CHECKING:
    from ipistate.protocol.episode import EpisodeId
    from ipistate.protocol.operations import Call
    from ipistate.protocol.records import Manifest, Restorable, SessionRecord
    from simulator.simulation import Simulation
    from simulator.stage import Stage


GRACE = 20.0


class Kind(StrEnum):
    """What a request does to its session's world."""

    SEED = "/seed_session"
    TOOL = "/tool"
    VERIFY = "/verify"
    CLOSE = "/close_session"
    METRICS = "/aggregate_metrics"
    FORK = "/ipistate/v1/fork"


@attrs.frozen
class Request:
    """A data request, and how its handler will end if nothing comes between."""

    number: int
    kind: Kind
    session: str
    episode: EpisodeId | None
    outcome: int | None = 200
    """Status; None for a handler that raises."""
    names: str | None = None
    """The session id after the handler, if a seed changes it."""
    makes: tuple[Any, ...] = ()
    """Session id and episode of each fork."""


class Process:
    """Feeds events to the machine and performs its actions in their order.

    Args:
        world: What surrounds the process: time, disk, ledger, network, chance.
    """

    def __init__(self, world: Simulation | Stage) -> None:
        """Start fresh."""
        self.world = world
        self.participant = ParticipantState(
            Settings(instance="ipi", lease_grace_seconds=GRACE), ResourcesPart()
        )
        self.worlds: dict[str, tuple[int, ...]] = {}
        self.waiting: dict[int, Request] = {}
        self.running: dict[int, Request] = {}
        self.calls: dict[int, Call] = {}
        self.flags: dict[int, StopFlag] = {}
        self.found: (
            tuple[do.Read, CheckpointError | Restorable[SessionRecord]] | None
        ) = None

    @property
    def phase(self) -> Phase:
        """The phase that ``status`` shows."""
        return self.participant.phase

    # -- data requests

    def arrive(self, request: Request) -> None:
        """Bring a request to the gate."""
        self.waiting[request.number] = request
        closed = not self.participant.part.is_open
        expired = self.world.now >= self.participant.control.due
        self.feed(
            on.RequestArrived(
                request.number, str(request.kind), request.session, request.episode
            )
        )
        waits = request.number in self.waiting
        require(waits or not closed or expired, "a closed gate let a request pass")
        require(not waits or self.phase is not Phase.IDLE, "an open gate held it back")

    def handle(self, number: int) -> None:
        """Run a request's handler, unless its client has gone."""
        request = self.running.get(number)
        if request is not None:
            self.world.ledger.takes_effect(request, self.phase)
            _HANDLERS[request.kind](self, request)

    def _seed(self, request: Request) -> None:
        session = request.names or request.session
        if request.outcome == 200:
            self.worlds[session] = ()
            self.world.ledger.seeded(session, request.episode)
        self.finish(request.number, request.outcome, session)

    def _tool(self, request: Request) -> None:
        if request.session not in self.worlds:
            self.finish(request.number, 400)
            return
        number, session = request.number, request.session
        self.worlds[session] = (*self.worlds[session], number)
        self.world.ledger.accepted(session, number)
        self.world.later("finish", self.finish, number, request.outcome)

    def _fork(self, request: Request) -> None:
        if request.session not in self.worlds:
            self.finish(request.number, 400)
            return
        made = dict(request.makes)
        self._feed(on.SessionsMade(request.number, made))
        if request.number in self.running:
            self.worlds.update(dict.fromkeys(made, self.worlds[request.session]))
            self.world.ledger.forked(request)
            self.finish(request.number, request.outcome)
        self._check()

    def _end(self, request: Request) -> None:
        # A request that does not validate never reaches its handler's work.
        if request.outcome != 422:
            self.worlds.pop(request.session, None)
            self.world.ledger.ended(request.session, request.outcome == 200)
        self.finish(request.number, request.outcome)

    def _metrics(self, request: Request) -> None:
        self.finish(request.number, request.outcome)

    def finish(
        self, number: int, status: int | None, session: str | None = None
    ) -> None:
        """End a request that runs."""
        request = self.running.pop(number, None)
        if request is not None:
            name = session or request.session
            self.feed(on.RequestEnded(number, status, name))
            self.world.answered(request, status)

    def disconnect(self, number: int) -> None:
        """The client of a request goes away, whatever has become of it."""
        request = self.waiting.pop(number, None) or self.running.pop(number, None)
        if request is not None:
            self.feed(on.RequestEnded(number, None, request.session))
            self.world.answered(request, None)

    # -- control calls

    def call(self, call: int, body: Any) -> int:
        """Send a control call with a number that has not been used."""
        self.calls[call] = body
        self.world.ledger.called(body)
        self.feed(on.ControlCalled(call, body))
        return call

    def drop(self, call: int) -> None:
        """The caller of a control call goes away, unless it has been answered."""
        if self.calls.pop(call, None) is not None:
            self.feed(on.ControlDropped(call))

    def find_idle(self, sessions: list[str]) -> None:
        """Find sessions idle, whether or not they are."""
        self.feed(on.IdleFound(tuple(sessions)))

    def tick(self) -> None:
        """Let the timer fire."""
        self.feed(on.Tick())

    # -- the machine

    def feed(self, event: on.Event) -> None:
        """Hand over an event, perform what comes back, and check what always holds."""
        self._feed(event)
        self._check()

    def _feed(self, event: on.Event) -> None:
        before = self.participant
        answers: list[Any] = []
        self.participant, actions = handle(before, event, self.world.now)
        for action in actions:
            self.world.performing(action)
            _PERFORM[type(action)](self, action, answers)
        dropped = isinstance(event, on.ControlDropped)
        self.world.ledger.moved(before, self.participant, dropped)
        for answer in answers:
            self._feed(answer)

    def _check(self) -> None:
        gate, control = self.participant.part, self.participant.control
        document = participant_status(self.participant)
        require(
            gate.is_open == (self.phase is Phase.IDLE)
            and document["phase"] == self.phase.value
            and (document["checkpoint_id"] is None) == (self.phase is Phase.IDLE),
            "phase and admission disagree",
        )
        require(self.running.keys() == set(gate.admitted), "in flight is miscounted")
        require(self.waiting.keys() == set(gate.waiting), "waiting is miscounted")
        require(not (gate.is_open and self.waiting), "a request waits at an open gate")
        if self.phase in {Phase.PREPARED, Phase.COMMITTED, Phase.RESTORED}:
            require(not self.running, "something runs in a frozen process")
        holder = getattr(control.holder, "call", None)
        known = {c.call for c in (*control.queue, *control.prepares)} | {holder}
        require(self.calls.keys() == known - {None}, "a call got lost in the machine")
        self.world.ledger.check(self.worlds, gate)

    # -- actions

    def _admit(self, action: do.Admit, _: list[Any]) -> None:
        require(action.request in self.waiting, "somebody who has gone is admitted")
        request = self.waiting.pop(action.request)
        self.running[request.number] = request
        self.world.ledger.admitted(request)
        self.world.later("handle", self.handle, request.number)

    def _refuse(self, action: do.Refuse, _: list[Any]) -> None:
        request = self.waiting.pop(action.request, None)
        request = request or self.running.pop(action.request, None)
        require(request is not None, "somebody who has gone is refused")
        assert request is not None
        self.world.ledger.turned_away(request)
        self.world.answered(request, action.status)

    def _reply(self, action: do.Reply, _: list[Any]) -> None:
        require(action.call in self.calls, "a call is answered twice or after its drop")
        body = self.calls.pop(action.call)
        self.world.ledger.replied(body, action, self)
        self.world.replied(action.call, action)

    def _export(self, action: do.Export, answers: list[Any]) -> None:
        self.world.ledger.exporting(action.keys)
        held = {s: self.worlds[s] for s in action.keys if s in self.worlds}
        answers.append(on.Exported(action.write, held))

    def _write(self, action: do.Write, _: list[Any]) -> None:
        self.world.ledger.writing(action, self.participant)
        flag = self.flags[action.write] = StopFlag()
        steps = self.world.disk.write(action, flag, self.world.ledger.published)
        self._next_step(action.write, steps, None)

    def _next_step(
        self,
        write: int,
        steps: Generator[str, Any, CheckpointError | Manifest],
        failing: bool | None,
    ) -> None:
        try:
            step = steps.send(failing)
        except StopIteration as ended:
            del self.flags[write]
            self.world.later("written", self.feed, on.WriteEnded(write, ended.value))
        else:
            self.world.later(f"write {step}", self._step, write, steps, step)

    def _step(
        self,
        write: int,
        steps: Generator[str, Any, CheckpointError | Manifest],
        step: str,
    ) -> None:
        self._next_step(write, steps, self.world.fails(step))

    def _stop_write(self, action: do.StopWrite, _: list[Any]) -> None:
        self.world.later("stop", self._set_flag, action.write)

    def _set_flag(self, write: int) -> None:
        # A write that has ended took its flag along, and publishes nothing any more.
        stopped = on.WriteStopped(write)
        flag = self.flags.get(write, StopFlag())
        flag.set(lambda: self.world.later("stopped", self.feed, stopped))

    def _read(self, action: do.Read, _: list[Any]) -> None:
        self.world.later("read", self._end_read, action)

    def _end_read(self, action: do.Read) -> None:
        outcome: CheckpointError | Restorable[SessionRecord]
        try:
            if self.world.fails("read"):
                outcome = CheckpointError("invalid_checkpoint_state", "bad sector")
            else:
                outcome = self.world.disk.read(action.directory, action.scope)
        except CheckpointError as error:
            outcome = error
        self.world.later("read ended", self._hand_over, action, outcome)

    def _hand_over(
        self, action: do.Read, outcome: CheckpointError | Restorable[SessionRecord]
    ) -> None:
        self.found = action, outcome
        self.feed(on.ReadEnded(action.read, outcome))

    def _install(self, action: do.Install, _: list[Any]) -> None:
        states: dict[str, Any] = dict(action.states)
        self.world.ledger.installing(states, self)
        self.worlds.update(states)

    def _free(self, action: do.Free, answers: list[Any]) -> None:
        self.world.ledger.freeing(action.keys, self)
        if self.world.frees_at_once():
            self._drop_worlds(action)
            answers.append(on.Freed(action.removal))
        else:
            self.world.later("free", self._free_later, action)

    def _free_later(self, action: do.Free) -> None:
        self._drop_worlds(action)
        self.feed(on.Freed(action.removal))

    def _drop_worlds(self, action: do.Free) -> None:
        for session in action.keys:
            self.worlds.pop(session, None)
        self.world.ledger.freed(action.keys, self)

    def _sweep(self, action: do.Sweep, _: list[Any]) -> None:
        self.world.ledger.sweeping(action.session_ids, self)
        for session in action.session_ids:
            self.worlds.pop(session, None)

    def _set_timer(self, action: do.SetTimer, _: list[on.Exported | on.Freed]) -> None:
        self.world.set_timer(action.at)


_HANDLERS = {
    Kind.SEED: Process._seed,
    Kind.TOOL: Process._tool,
    Kind.VERIFY: Process._end,
    Kind.CLOSE: Process._end,
    Kind.METRICS: Process._metrics,
    Kind.FORK: Process._fork,
}

_PERFORM: dict[type, Callable[[Process, Any, list[Any]], None]] = {
    do.Admit: Process._admit,
    do.Refuse: Process._refuse,
    do.Reply: Process._reply,
    do.Export: Process._export,
    do.Write: Process._write,
    do.StopWrite: Process._stop_write,
    do.Read: Process._read,
    do.Install: Process._install,
    do.Free: Process._free,
    do.Sweep: Process._sweep,
    do.SetTimer: Process._set_timer,
}
