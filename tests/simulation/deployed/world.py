"""Everything at once, from one seed: servers that die, and a network that is no help."""

from __future__ import annotations

import asyncio
import json
import random as shared_random
import shutil
import tempfile
import uuid

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from deployed.controller import DeploymentController
from deployed.endpoint import Endpoint
from deployed.network import Exchange, Host, Network
from deployed.oracle import DeploymentViolation, Oracle, Outcome, require
from deployed.servers import AGENT, ENVIRONMENT, MODEL, NAMES, RESOURCES, Site
from deployed.virtual_loop import LIFE, Life, VirtualLoop, context_of
from ipistate.protocol import EpisodeId, Phase
from ipistate.server import ParticipantShell


FROZEN = {Phase.PREPARED, Phase.COMMITTED, Phase.RESTORED}
_NAMERS = (
    "ipistate.deploy.environment_server.uuid4",
    "ipistate.deploy.model_capture.uuid4",
    "ipistate.server.adapter.hot_path.uuid4",
    "ipistate.server.adapter.cookies.uuid4",
)


class Death(BaseException):
    """The process dies here and now."""


class World:
    """A deployment, its endpoint, its controller, and what befalls them.

    Args:
        seed: Decides everything.
        topology: Who drives the agent.
        events: About how much happens before it is left in peace.
        expected: What each row comes to; None to find it out.
        is_calm: Nothing goes wrong.
    """

    def __init__(
        self,
        seed: int,
        topology: str,
        events: int,
        expected: Iterable[Outcome | None],
        *,
        is_calm: bool = False,
    ) -> None:
        self.seed = seed
        self.topology = topology
        self.budget = events
        self.random = Random(seed)
        self.is_calm = is_calm
        self.loop = VirtualLoop()
        self.loop.aside = self._aside
        self.loop.set_exception_handler(self._excepted)
        self.network = Network(self.loop, self.random, self._watch)
        self.oracle = Oracle([*expected])
        self.lives: dict[str, Life] = {}
        self.machines: dict[str, Any] = {}
        self.fuses: dict[str, int] = {}
        self.graveyard: list[Life] = []
        self.machine_events = 0
        self.tally: Counter[str] = Counter()
        self.faults: list[BaseException] = []
        self.outside = Life("outside")
        self.broken: asyncio.Event

    @property
    def events(self) -> int:
        """How much has happened."""
        return self.network.events + self.machine_events

    @property
    def is_over(self) -> bool:
        """Whether it is to be left in peace."""
        return self.events >= self.budget

    def run(self) -> Counter[str]:
        """Let it happen; return how much of what there was.

        Raises:
            DeploymentViolation: A rule was broken.
        """
        shared_random.seed(self.seed)  # a library draws its pauses from it
        self.root = Path(tempfile.mkdtemp(prefix="ipistate-world-"))
        try:
            with self._patched():
                context = context_of(self.outside)
                context.run(self._to_the_end)
        finally:
            shutil.rmtree(self.root, ignore_errors=True)
        return self.tally + self.oracle.tally

    def _to_the_end(self) -> None:
        self.site = Site(self.loop, self.network, self.root)
        self.broken = asyncio.Event()
        self.endpoint = Endpoint(self._reply_delay, self._asked)
        self.network.hosts["endpoint"] = Host(self.outside, self.endpoint.app)
        self.network.lost, self.network.doubled = (
            (0.0, 0.0) if self.is_calm else (0.03, 0.05)
        )
        controller = DeploymentController(self)
        try:
            with suppress(RuntimeError):  # it was stopped
                self.loop.run_until_complete(controller.run())
        finally:
            self._bury()
            # What was found first says the most.
            self._check()

    def _asked(self, episode: EpisodeId, turn: int, call: str) -> None:
        try:
            self.oracle.asked(episode, turn, call)
        except DeploymentViolation as violation:
            # The endpoint would only answer 500.
            self.network.errors.append(violation)
            self.give_up()

    def _reply_delay(self) -> float:
        return self.random.expovariate(1 / 0.5)

    # Life and death

    def start(self) -> None:
        """Start fresh processes of all."""
        self.broken.clear()
        for name in NAMES[self.topology]:
            self.lives[name], self.machines[name] = self.site.start(name)

    def crash(self, names: Iterable[str]) -> None:
        """End processes; what they were in the middle of breaks."""
        for name in sorted(names):
            life = self.lives[name]
            if life.is_alive:
                life.is_alive = False
                self.fuses.pop(name, None)
                self.graveyard.append(life)
                self.network.died(life)
                self.tally["processes killed"] += 1
        self.broken.set()

    def give_up(self) -> None:
        """Let it end: a rule was broken."""
        self.loop.stop()

    def crash_some(self, first: str | None = None) -> None:
        """End some of the processes at the same moment."""
        names = NAMES[self.topology]
        some = {name for name in names if self.random.random() < 0.4}
        self.crash(some | {first or self.random.choice(names)})
        self.tally["crashes"] += 1

    def light_a_fuse(self) -> None:
        """Let some process die before one of its next actions."""
        name = self.random.choice(NAMES[self.topology])
        self.fuses[name] = self.random.randrange(12)

    @contextmanager
    def _patched(self) -> Generator[None]:
        perform, feed = ParticipantShell._perform, ParticipantShell.feed

        def performed(shell: Any, action: Any, answer: Any) -> None:
            self._before(type(action).__name__)
            perform(shell, action, answer)

        def fed(shell: Any, event: Any) -> None:
            self.machine_events += 1
            feed(shell, event)

        with ExitStack() as stack:
            shell = patch.multiple(ParticipantShell, _perform=performed, feed=fed)
            stack.enter_context(shell)
            for name in _NAMERS:
                stack.enter_context(patch(name, self._uuid))
            yield

    def _uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self.random.getrandbits(128), version=4)

    def _before(self, action: str) -> None:
        life = LIFE.get()
        if life.is_alive and life.name in self.fuses:
            self.fuses[life.name] -= 1
            if self.fuses[life.name] < 0:
                self.tally[f"crash before {action}"] += 1
                self.crash_some(life.name)
        if not life.is_alive:
            raise Death

    def _aside(self, work: Callable[[], Any], done: asyncio.Future[Any]) -> None:
        life = LIFE.get()

        def happens() -> None:
            self.machine_events += 1
            if self._dies(life, "before"):
                return
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - it is the caller's
                if not done.done():
                    done.set_exception(error)
                return
            if not self._dies(life, "after") and not done.done():
                done.set_result(result)

        self.loop.call_later(self.random.expovariate(1 / 0.005), happens)

    def _dies(self, life: Life, when: str) -> bool:
        if self.is_calm or self.is_over or self.random.random() >= 0.0007:
            return False
        if life.name in self.lives and life.is_alive:
            self.tally[f"crash {when} work on files"] += 1
            self.crash_some(life.name)
            return True
        return False

    def _bury(self) -> None:
        # In good order, so that nothing is cleaned up by chance in another world.
        self.loop.is_draining = True
        lives = [*self.graveyard, *self.lives.values(), self.outside, self.network.life]
        for _ in range(10):
            for task in (left := _left(lives)):
                task.cancel()
            if left:
                self.loop.run_until_complete(asyncio.sleep(1.0))
        for task in _left(lives):
            # One that was to go on when it died: it waits for what will not come again.
            vars_of: Any = task
            vars_of._log_destroy_pending = False
            with suppress(RuntimeError):
                vars_of.get_coro().close()
        for task in (t for life in lives for t in life.tasks):
            if task.done() and not task.cancelled():
                task.exception()
        self.loop.close()

    # Rules

    def _excepted(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if self.loop.is_draining or isinstance(error, Death):
            return
        self.faults.append(error or RuntimeError(context["message"]))

    def _check(self) -> None:
        for error in (*self.network.errors, *self.faults):
            if not isinstance(error, Death):
                if isinstance(error, DeploymentViolation):
                    raise error
                raise DeploymentViolation(f"something was raised: {error!r}") from error

    def _watch(
        self, what: str, exchange: Exchange, status: int, content: bytes
    ) -> None:
        if what == "leaves":
            self._may_leave(exchange)
        elif what == "answers":
            self._may_answer(exchange, status)
        elif exchange.host == MODEL and is_call(exchange) and status == 200:
            self.oracle.delivered.add(json.loads(content)["id"])

    def _phase(self, name: str) -> Any:
        machine = self.machines.get(name)
        return None if machine is None else machine.participant.phase

    def _may_leave(self, exchange: Exchange) -> None:
        name = exchange.caller.name
        if exchange.host == RESOURCES and exchange.path.endswith("/verify"):
            self.oracle.verifying(_rollout(exchange))
        if exchange.host == RESOURCES and name in {ENVIRONMENT, AGENT}:
            # What a clean-up closes is outside of the episode.
            closes = exchange.path.endswith("/close_session")
            require(
                closes or self._phase(name) not in FROZEN,
                f"{name} asks for {exchange.path}, and is frozen",
            )

    def _may_answer(self, exchange: Exchange, status: int) -> None:
        require(status != 500, f"{exchange.host} answers 500 to {exchange.path}")
        if status != 200:
            return
        if exchange.host == MODEL and is_call(exchange):
            phase = self._phase(MODEL)
            require(phase not in FROZEN, "a reply is delivered by a frozen model")
        if exchange.host == RESOURCES and exchange.path.endswith("/verify"):
            self.oracle.verified(_rollout(exchange))


def _rollout(exchange: Exchange) -> str:
    key = exchange.path.split("/")[2]
    return EpisodeId.from_capture_key(key).rollout_id


def is_call(exchange: Exchange) -> bool:
    """Tell whether a request is a call of the model."""
    return exchange.path.endswith("/v1/responses")


def _left(lives: Iterable[Life]) -> list[asyncio.Task[Any]]:
    return [task for life in lives for task in life.tasks if not task.done()]
