"""Clients: agents that seed, call, verify and close, and strays that should not."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import attrs

from ipistate.protocol.episode import EpisodeId
from simulator.process import Kind


if TYPE_CHECKING:
    from simulator.simulation import Simulation


@attrs.define
class Rollout:
    """One rollout, as its controller sees it."""

    name: str
    attempt: int
    session: str
    state: str = "running"
    """``running``, ``pending`` (restored, not started yet), ``lost`` or ``over``."""

    @property
    def episode(self) -> EpisodeId:
        """The attempt that runs or ran last."""
        return EpisodeId(self.name, self.attempt)


class Rollouts:
    """Starts agents and keeps account of them."""

    def __init__(self, sim: Simulation) -> None:
        """Know no rollout."""
        self.sim = sim
        self.known: dict[str, Rollout] = {}

    def live(self) -> list[Rollout]:
        """Return the rollouts that a controller would continue."""
        return [r for r in self.known.values() if r.state in {"running", "pending"}]

    def lose(self) -> None:
        """The process died, and all sessions with it."""
        for rollout in self.live():
            rollout.state = "lost"

    def begin(self) -> Generator[Any, Any, Any]:
        """Keep some rollouts running."""
        sim = self.sim
        while True:
            yield sim.sleep(sim.random.expovariate(1 / 1.5))
            if sim.is_recovering and not sim.chance(0.03):
                continue
            if sim.process is None or len(self.live()) >= sim.rates.rollouts:
                continue
            lost = [r for r in self.known.values() if r.state == "lost"]
            if lost and sim.chance(0.5):
                rollout = sim.random.choice(lost)
                attempt = rollout.attempt + sim.random.choice([0, 1, 1])
                self.start(Rollout(rollout.name, attempt, self.fresh_session()))
            else:
                name = f"r{next(sim.numbers)}"
                self.start(Rollout(name, 0, self.fresh_session()))

    def fresh_session(self) -> str:
        """Name a session that has never been."""
        return f"s{next(self.sim.numbers)}"

    def start(self, rollout: Rollout, seeds: bool = True) -> None:  # noqa: FBT002
        """Start an agent."""
        if len(self.known) > 40:
            self.known = {r.name: r for r in self.live()}
        rollout.state = "running"
        self.known[rollout.name] = rollout
        self.sim.spawn(self._agent(rollout, seeds))

    def _ask(
        self,
        rollout: Rollout,
        kind: Kind,
        outcome: int | None = 200,
        prefix: float = 0.5,
    ) -> Callable[..., None]:
        sim = self.sim
        episode = rollout.episode if sim.chance(prefix) else None
        patience = sim.random.random() * 15.0 if sim.chance(0.07) else None
        return sim.ask(kind, rollout.session, episode, outcome, patience)

    def _agent(self, rollout: Rollout, seeds: bool) -> Generator[Any, Any, Any]:
        sim, episode, generation = self.sim, rollout.episode, self.sim.generation
        if seeds:
            outcome = sim.random.choice([200] * 8 + [422, None])
            status = yield self._ask(rollout, Kind.SEED, outcome, prefix=0.95)
            if status != 200:
                rollout.state = "over"
                return
        for _ in range(sim.random.randint(0, 14)):
            yield sim.sleep(sim.random.expovariate(1 / 2.0))
            if sim.generation != generation or rollout.episode != episode:
                return
            self._branch_off(rollout)
            outcome = sim.random.choice([200] * 9 + [None])
            status = yield self._ask(rollout, Kind.TOOL, outcome)
            if status in {400, 409}:
                rollout.state = "over"
                return
        if sim.chance(0.85):
            yield self._ask(
                rollout, Kind.VERIFY, sim.random.choice([200] * 7 + [500, 422, None])
            )
        if sim.chance(0.7) and sim.generation == generation:
            yield self._ask(rollout, Kind.CLOSE)
        if rollout.episode == episode:
            rollout.state = "over"

    def _branch_off(self, rollout: Rollout) -> None:
        if self.sim.chance(0.05):
            self.sim.spawn(self._once(rollout, Kind.TOOL))
        if self.sim.chance(0.07):
            self.sim.spawn(self._fork(rollout))

    def _once(self, rollout: Rollout, kind: Kind) -> Generator[Any, Any, Any]:
        yield self._ask(rollout, kind)

    def _fork(self, rollout: Rollout) -> Generator[Any, Any, Any]:
        # As a rule for new rollouts; now and then for an attempt that is known already.
        sim, generation = self.sim, self.sim.generation
        forks = [
            Rollout(f"r{next(sim.numbers)}", 0, self.fresh_session())
            for _ in range(sim.random.randint(1, 2))
        ]
        makes = tuple((fork.session, fork.episode) for fork in forks)
        known = [rollout.name for rollout in self.known.values()]
        names = sim.controller.retired if sim.chance(0.5) else known
        if names and sim.chance(0.3):
            named = EpisodeId(sim.random.choice(names), sim.random.randint(0, 1))
            makes = (*makes, (self.fresh_session(), named))
        status = yield sim.ask(
            Kind.FORK, rollout.session, None, patience=sim.delay(60.0), makes=makes
        )
        if status == 200 and sim.generation == generation:
            for fork in forks:
                self.start(fork, seeds=False)

    def strays(self) -> Generator[Any, Any, Any]:
        """Send what comes too late, too early, twice or from nobody."""
        sim = self.sim
        while True:
            yield sim.sleep(sim.random.expovariate(1 / 1.2))
            rollout = self._any()
            session, episode = self.fresh_session(), None
            if rollout is not None and sim.chance(0.7):
                session, episode = rollout.session, self._stale(rollout)
            kind = sim.random.choice(
                [Kind.TOOL] * 6 + [Kind.SEED, Kind.CLOSE, Kind.METRICS, Kind.VERIFY]
            )
            if rollout is not None and rollout.state in {"running", "pending"}:
                kind = sim.random.choice([kind, Kind.TOOL, Kind.METRICS])
            sim.spawn(self._stray(kind, session, episode))

    def _stray(
        self, kind: Kind, session: str, episode: EpisodeId | None
    ) -> Generator[Any, Any, Any]:
        yield self.sim.ask(kind, session, episode, patience=self.sim.delay(60.0))

    def _any(self) -> Rollout | None:
        known = list(self.known.values())
        return self.sim.random.choice(known) if known else None

    def _stale(self, rollout: Rollout) -> EpisodeId | None:
        # An earlier attempt, the same one, or nothing but the cookie.
        earlier = max(0, rollout.attempt - self.sim.random.randint(0, 2))
        named = EpisodeId(rollout.name, earlier)
        return self.sim.random.choice([named, named, None])
