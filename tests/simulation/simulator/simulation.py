"""Virtual time, chance, the network and the power supply: everything from one seed."""

from __future__ import annotations

import heapq

from collections import Counter
from collections.abc import Callable, Generator
from functools import partial
from hashlib import blake2b
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, NoReturn

import attrs

from ipistate.protocol.actions import (
    Reply,
    SetTimer,
)
from ipistate.protocol.operations import (
    Call,
    ResumeBody,
)
from simulator import agents, controller, epilogue
from simulator.disk import STEPS, Disk
from simulator.ledger import Ledger, require
from simulator.process import Kind, Process, Request


if TYPE_CHECKING:
    from ipistate.protocol.episode import EpisodeId


class Crash(Exception):
    """The process dies here and now."""


def _nobody(_: Reply | None) -> None:
    """Listen to nothing."""


@attrs.frozen
class Rates:
    """How often what happens; seconds between, or chances."""

    crash: float = 30.0
    fault: float = 0.02
    duplicate: float = 0.15
    lost: float = 0.04
    rollouts: int = 7


# The longest delay of each step of the process; most are much shorter.
DELAYS = {
    "handle": 3.0,
    "finish": 2.0,
    "stop": 1.0,
    "stopped": 0.5,
    "written": 0.5,
    "read": 6.0,
    "read ended": 0.5,
    "free": 120.0,
    "tick": 6.0,
    **{f"write {step}": 8.0 for step in STEPS},
    "write lines": 90.0,
}


NEVER = 5_000
"""Events after which what is under way should have come to an end."""

ACTIONS = (
    *("Admit", "Reply", "Export", "Write", "StopWrite", "Read", "Install", "Free"),
    "Sweep",
)
MOMENTS = (*STEPS, "read", *ACTIONS, *(f"after {name}" for name in ACTIONS))
"""When a process can die: before a step on the disk, before or after an action."""


class Simulation:
    """One schedule. The same seed gives the same run, to the last action.

    Args:
        seed: Decides everything.
        events: How many events happen before everybody goes away.
    """

    def __init__(
        self, seed: int, events: int = 4000, rates: Rates | None = None
    ) -> None:
        """Set the scene; nothing has happened yet."""
        self.rates = rates or Rates()
        self.random = Random(seed)
        self.now, self.limit, self.events = 1000.0, events, 0
        self.disk, self.ledger = Disk(), Ledger()
        self.tally: Counter[str] = Counter()
        self._digest = blake2b(digest_size=16)
        self._heap: list[tuple[float, int, str, Callable[..., object], Any, Any]] = []
        self._order = count()
        self.numbers = count(1)
        self._asked: dict[int, Any] = {}
        self._called: dict[int, Any] = {}
        self._armed = 0
        self.doomed: str | None = None
        self.generation, self.is_over, self.is_recovering = 0, False, False
        self.process: Process | None = Process(self)
        self.controller = controller.Controller(self)
        self.rollouts = agents.Rollouts(self)

    @property
    def alive(self) -> Process:
        """The process, which is there."""
        assert self.process is not None
        return self.process

    def run(self) -> Counter[str]:
        """Let everything happen; returns how many of what."""
        for script in (
            self.controller.checkpoints(),
            self.controller.retirements(),
            self.controller.noise(),
            self.rollouts.begin(),
            self.rollouts.strays(),
            self._disasters(),
            self._idlers(),
        ):
            self.spawn(script)
        while self.events < self.limit:
            self._next()
        self.is_over = True
        self.generation += 1
        epilogue.end(self)
        return self.tally + self.ledger.tally

    @property
    def digest(self) -> str:
        """A digest of everything that happened, in order."""
        return self._digest.hexdigest()

    # -- chance

    def chance(self, probability: float) -> bool:
        """Toss a coin."""
        return self.random.random() < probability

    def delay(self, longest: float) -> float:
        """Draw a delay: short as a rule, sometimes none or long."""
        draw = self.random.random()
        if draw < 0.1:
            return 0.0
        return longest * self.random.random() * (0.05 if draw < 0.8 else 1.0)

    def fails(self, step: str) -> bool:
        """Tell whether a step on the disk fails; the process may die before it."""
        if step == self.doomed:
            self._die(f"before {step}")
        failing = not self.is_over and self.chance(self.rates.fault)
        self.tally[f"fault in {step}"] += failing
        return failing

    def frees_at_once(self) -> bool:
        """Tell whether worlds are dropped at once."""
        return self.chance(0.3)

    # -- time

    def at(
        self,
        delay: float,
        step: str,
        function: Callable[..., Any],
        *args: object,
        owner: Process | None = None,
    ) -> None:
        """Let something happen later, unless its process dies before."""
        entry = (self.now + delay, next(self._order), step, function, args, owner)
        heapq.heappush(self._heap, entry)

    def later(self, step: str, function: Callable[..., None], *args: object) -> None:
        """Let a step of the process happen later."""
        self.at(self.delay(DELAYS[step]), step, function, *args, owner=self.process)

    def set_timer(self, at: float | None) -> None:
        """Arm the process's timer; it is late as a rule, and sometimes early."""
        self._armed += 1
        if at is not None:
            wait = max(0.0, at - self.now)
            early = wait * self.random.random() if self.chance(0.05) else None
            wait += self.delay(DELAYS["tick"])
            self.at(wait, "tick", self._tick, self._armed, owner=self.process)
            if early is not None:
                self.at(early, "tick", self._tick, self._armed, owner=self.process)

    def _tick(self, armed: int) -> None:
        if armed == self._armed:
            self.alive.tick()

    def _next(self) -> None:
        self.now, _, step, function, args, owner = heapq.heappop(self._heap)
        if owner is not None and owner is not self.process:
            return
        self.events += 1
        self.note(step, f"{self.now:.9f}")
        try:
            function(*args)
        except Crash as crash:
            self.crash(str(crash))

    def settle(self, until: Callable[..., bool] | None = None) -> None:
        """Let what is under way happen, to the end or until something holds."""
        latest = self.events + NEVER
        while self._heap and not (until is not None and until()):
            require(self.events < latest, "it never comes to rest")
            self._next()

    def note(self, *what: str) -> None:
        """Add to the digest of the run."""
        self._digest.update(" ".join(what).encode())

    # -- scripts: generators that yield what they wait for

    def spawn(self, script: Generator[Any, Any, Any]) -> None:
        """Run a script from now on."""
        self._go_on(script, None)

    def _go_on(
        self, script: Generator[Any, Any, Any], value: int | Reply | None
    ) -> None:
        if self.is_over:
            return
        try:
            wish = script.send(value)
        except StopIteration:
            return
        wish(script)

    def sleep(self, seconds: float) -> Callable[..., None]:
        """Wish for a pause."""
        return lambda script: self.at(seconds, "wake", self._go_on, script, None)

    def ask(
        self,
        kind: Kind,
        session: str,
        episode: EpisodeId | None,
        outcome: int | None = 200,
        patience: float | None = None,
        makes: tuple[tuple[str, EpisodeId], ...] = (),
    ) -> Callable[..., None]:
        """Wish for the status of a data request; None if there is none."""
        number = next(self.numbers)
        request = Request(number, kind, session, episode, outcome, makes=makes)

        def send(script: Generator[Any, Any, Any]) -> None:
            listener = partial(self._go_on, script)
            self.at(
                self.delay(0.5), "arrive", self._arrive, request, listener, patience
            )

        return send

    def _arrive(
        self, request: Request, listener: Callable[..., Any], patience: float | None
    ) -> None:
        if self.process is None or self.is_over:
            listener(None)
            return
        self._asked[request.number] = listener
        if patience is not None:
            self.at(patience, "give up", self._give_up, request.number)
        self.process.arrive(request)

    def _give_up(self, number: int) -> None:
        if number in self._asked and self.process is not None:
            self.tally["disconnects"] += 1
            self.process.disconnect(number)

    def answered(self, request: Request, status: int | None) -> None:
        """A data request has been answered or has ended."""
        listener = self._asked.pop(request.number, None)
        if listener is not None:
            self.at(self.delay(0.5), "answer", listener, status)

    def call(self, body: Call, patience: float | None = None) -> Callable[..., None]:
        """Wish for the reply to a control call; None if there is none.

        The same body may arrive again, much later.
        """

        def send(script: Generator[Any, Any, Any]) -> None:
            listener = partial(self._go_on, script)
            if self.chance(self.rates.duplicate):
                self.tally["duplicates"] += 1
                late = self.random.choice([1.0, 10.0, 60.0])
                self.at(self.random.random() * late, "deliver", self._deliver, body)
            arriving = self.delay(2.0)
            if self.chance(self.rates.lost):
                self.at(arriving + 5.0, "lost", listener, None)
            else:
                self.at(arriving, "deliver", self._deliver, body, listener, patience)

        return send

    def _deliver(
        self,
        body: Call,
        listener: Callable[..., Any] = _nobody,
        patience: float | None = None,
    ) -> None:
        if self.process is None or self.is_over:
            listener(None)
            return
        call = self.operate(body, listener)
        if patience is not None:
            self.at(patience, "drop", self._drop, call, owner=self.process)

    def operate(self, body: Call, listener: Callable[..., Any]) -> int:
        """Make a control call now; the listener gets its reply, or None."""
        call = next(self.numbers)
        self._called[call] = listener, body, self._latest(body)
        self.alive.call(call, body)
        return call

    def _latest(self, body: Call) -> float:
        # Only a late timer counts, and what a resume waits for, unless somebody is
        # ahead or the lease is overdue.
        latest = max(self.now, body.deadline_ts) + 2 * DELAYS["tick"]
        control = self.alive.participant.control
        if control.holder is not None or control.due <= self.now:
            ahead = [called.deadline_ts for _, called, _ in self._called.values()]
            found: float = max(latest, *ahead, 0.0) + 90.0
            return found
        return latest + (40.0 if isinstance(body, ResumeBody) else 0.0)

    def _drop(self, call: int) -> None:
        if call in self._called:
            self.tally["callers gone"] += 1
            listener, _, _ = self._called.pop(call)
            self.alive.drop(call)
            listener(None)

    def replied(self, call: int, reply: Reply) -> None:
        """A control call has been answered."""
        listener, _, latest = self._called.pop(call)
        require(self.now <= latest, "a call waited for too long")
        lost = not self.is_over and self.chance(self.rates.lost)
        answer = None if lost else reply
        self.at(self.delay(1.0), "reply", listener, answer)

    # -- the power supply

    def performing(self, action: object) -> None:
        """The process is about to perform an action; it may die before it."""
        name = type(action).__name__
        detail = (
            f"{action.status} {action.document!r}" if isinstance(action, Reply) else ""
        )
        if not isinstance(action, SetTimer):
            self.tally[f"action {name}"] += 1
        self.note(name, detail)
        if name == self.doomed:
            self._die(f"before {name}")
        if self.doomed == f"after {name}":
            self.at(0.0, "crash", self._die, self.doomed, owner=self.process)

    def _die(self, where: str) -> NoReturn:
        self.doomed = None
        self.tally[f"crash {where}"] += 1
        raise Crash(where)

    def crash(self, where: str) -> None:
        """End the process; its clients and callers notice, the disk stays."""
        self.note("crash", where)
        self.tally["crashes"] += 1
        self.process = None
        self.generation += 1
        self.disk.lose_power(lambda: self.chance(0.5))
        self.ledger.crashed()
        waiting = [*self._asked.values(), *(call[0] for call in self._called.values())]
        self._asked, self._called = {}, {}
        for listener in waiting:
            self.at(self.delay(1.0), "cut off", listener, None)
        if not self.is_over:
            self.rollouts.lose()
            self.spawn(self.controller.recover())

    def start(self) -> None:
        """Start a fresh process."""
        if self.process is None:
            self.tally["processes started again"] += 1
            self.process = Process(self)

    def _idlers(self) -> Generator[Any, Any, Any]:
        while True:
            yield self.sleep(self.random.expovariate(1 / 25.0))
            self.at(0.0, "idle", self._find_idle, owner=self.process)

    def _find_idle(self) -> None:
        if self.process is None:
            return
        known = [*self.process.worlds, "nobody's"]
        few = min(len(known), self.random.choice([1, 1, 2]))
        self.process.find_idle(self.random.sample(known, few))

    def _disasters(self) -> Generator[Any, Any, Any]:
        while True:
            yield self.sleep(self.random.expovariate(1 / self.rates.crash))
            if self.chance(0.3):
                where = "at any time"
                self.at(0.0, "crash", self._die, where, owner=self.process)
            else:
                self.doomed = self.random.choice(MOMENTS)
