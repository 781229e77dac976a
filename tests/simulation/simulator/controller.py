"""Controllers: they checkpoint, retire and restore, and make every mistake they can."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, TypeGuard

from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.operations import (
    Call,
    CommitBody,
    ForgetBody,
    PrepareBody,
    RenewBody,
    RestoreBody,
    ResumeBody,
    RetireBody,
)
from simulator.agents import Rollout


if TYPE_CHECKING:
    from ipistate.protocol.actions import Reply
    from simulator.simulation import Simulation


DEADLINES = (-1.0, 0.5, 3.0, 10.0, 30.0, 30.0, 30.0)
TRIES = 3


def is_good(reply: Reply | None) -> TypeGuard[Reply]:
    """Tell whether a call succeeded."""
    return reply is not None and reply.status == 200


class Controller:
    """Drives the participant of a simulation."""

    def __init__(self, sim: Simulation) -> None:
        """Know no checkpoint."""
        self.sim = sim
        self.ids: list[str] = []
        self.directories: list[str] = []
        self.committed: str | None = None
        self.retired: list[str] = []

    # -- calls

    def _fresh(self, prefix: str) -> str:
        return f"{prefix}{next(self.sim.numbers)}"

    def _send(
        self, operation: type[Call], name: str, **members: Any
    ) -> Callable[..., None]:
        sim = self.sim
        deadline = sim.now + sim.random.choice(DEADLINES)
        body = operation(checkpoint_id=name, deadline_ts=deadline, **members)
        return self._call(body)

    def _call(self, body: Call) -> Callable[..., None]:
        sim = self.sim
        patience = max(0.0, body.deadline_ts - sim.now)
        patience += sim.random.choice([5.0, 5.0, 20.0])
        if sim.chance(0.05):
            patience *= sim.random.random()
        return sim.call(body, patience)

    def _retried(
        self, operation: type[Call], name: str, **members: Any
    ) -> Generator[Any, Any, Reply | None]:
        # Again and again with the same arguments, until it succeeds or does not matter.
        reply: Reply | None = None
        for _ in range(TRIES):
            reply = yield self._send(operation, name, **members)
            if is_good(reply):
                break
            yield self.sim.sleep(self.sim.delay(4.0))
        return reply

    # -- checkpoints

    def checkpoints(self) -> Generator[Any, Any, Any]:
        """Take checkpoints, one after the other."""
        sim = self.sim
        while True:
            yield sim.sleep(sim.random.expovariate(1 / 8.0))
            if not sim.is_recovering or sim.chance(0.1):
                yield from self._checkpoint(self._fresh("c"))

    def _checkpoint(self, name: str) -> Generator[Any, Any, Any]:
        sim, generation = self.sim, self.sim.generation
        self.ids = [*self.ids[-80:], name]
        reply = None
        for _ in range(TRIES):
            reply = yield self._send(PrepareBody, name)
            if is_good(reply) and reply.document["phase"] == "prepared":
                break
            yield sim.sleep(sim.delay(4.0))
        ready = is_good(reply) and reply.document["phase"] == "prepared"
        if (ready or sim.chance(0.1)) and sim.generation == generation:
            yield from self._commit(name)
        elif is_good(reply):
            report: Any = reply.document["report"]
            yield from self._unblock(name, report["blockers"])
        if not sim.chance(0.12):  # else the controller is gone, and the lease runs out
            yield from self._retried(ResumeBody, name)

    def _commit(self, name: str) -> Generator[Any, Any, Any]:
        sim = self.sim
        members: dict[str, Any] = {
            "checkpoint_dir": self._directory(),
            "episode_ids": self._scope(),
        }
        if sim.chance(0.1):
            members["stop"] = True
        reply = yield from self._retried(CommitBody, name, **members)
        if sim.chance(0.1):
            yield self._send(CommitBody, name, **members | {"episode_ids": ()})
        if is_good(reply):
            self.committed = members["checkpoint_dir"]
            self.directories = [*self.directories[-5:], members["checkpoint_dir"]]
        while sim.chance(0.3):
            yield self._send(RenewBody, name)
            yield sim.sleep(sim.delay(10.0))

    def _directory(self) -> str:
        if self.directories and self.sim.chance(0.1):
            return self.sim.random.choice(self.directories)
        return self._fresh("d")

    def _scope(self) -> tuple[EpisodeId, ...] | None:
        sim = self.sim
        if sim.chance(0.15):
            return None
        keep = 1.0 if sim.chance(0.6) else 0.5
        states = {"running"} if sim.chance(0.25) else {"running", "pending"}
        live = [
            rollout.episode
            for rollout in sim.rollouts.live()
            if rollout.state in states and sim.chance(keep)
        ]
        if sim.chance(0.2):
            live.append(EpisodeId("nobody", 3))
        return tuple(live)

    def _unblock(self, name: str, blockers: Iterable[Any]) -> Generator[Any, Any, Any]:
        yield from self._retried(ResumeBody, name)
        if blockers:
            episodes = tuple(EpisodeId.from_capture_key(key) for key in blockers)
            yield self._send(RetireBody, self._fresh("x"), episode_ids=episodes)

    # -- retirements

    def retirements(self) -> Generator[Any, Any, Any]:
        """Retire what runs or ran, and forget some of it."""
        sim = self.sim
        while True:
            yield sim.sleep(sim.random.expovariate(1 / 7.0))
            name = self._fresh("x") if sim.chance(0.8) or not self.ids else self.ids[-1]
            if self.retired and sim.chance(0.4):
                gone = self.retired.pop(sim.random.randrange(len(self.retired)))
                yield self._send(ForgetBody, name, rollout_ids=(gone, "nobody"))
            else:
                yield from self._retire(name)

    def _retire(self, name: str) -> Generator[Any, Any, Any]:
        sim = self.sim
        known = list(sim.rollouts.known.values())
        chosen = sim.random.sample(known, min(len(known), sim.random.randint(1, 3)))
        if not chosen:
            return
        episodes = tuple(rollout.episode for rollout in chosen)
        reply = yield self._send(RetireBody, name, episode_ids=episodes)
        if is_good(reply) or sim.chance(0.5):
            self.retired += [rollout.name for rollout in chosen]
            for rollout in chosen:
                if rollout.state == "running" and sim.chance(0.5):
                    rollout.state = "lost"

    # -- noise

    def noise(self) -> Generator[Any, Any, Any]:
        """Send calls that make no sense, with ids of any age."""
        sim = self.sim
        while True:
            yield sim.sleep(sim.random.expovariate(1 / 12.0))
            name = sim.random.choice([*self.ids[-70:], self._fresh("n")])
            if self.ids and sim.chance(0.4):
                name = self.ids[-1]
            sim.spawn(self._noise(name))

    def _noise(self, name: str) -> Generator[Any, Any, Any]:
        sim = self.sim
        operation = sim.random.choice(
            [PrepareBody, RenewBody, CommitBody, RestoreBody, ResumeBody]
        )
        members: dict[str, Any] = {}
        if operation in {CommitBody, RestoreBody}:
            members["checkpoint_dir"] = self._directory()
            members["episode_ids"] = self._scope()
        if operation is RestoreBody:
            members["episode_ids"] = members["episode_ids"] or ()
        yield self._send(operation, name, **members)

    # -- after a crash

    def recover(self) -> Generator[Any, Any, Any]:
        """Start a fresh process and restore the last checkpoint, if there is one."""
        sim, generation = self.sim, self.sim.generation
        sim.is_recovering = True
        yield sim.sleep(sim.delay(8.0))
        sim.start()
        while sim.chance(0.9) and sim.generation == generation:
            done = yield from self._restore(self._fresh("r"))
            if done:
                break
        if sim.generation == generation:
            sim.is_recovering = False

    def _restore(self, name: str) -> Generator[Callable[..., None], Any, bool]:
        generation, directory = self.sim.generation, self._source()
        scope = self._restorable(directory)
        self.ids = [*self.ids[-80:], name]
        reply = yield from self._retried(
            RestoreBody, name, checkpoint_dir=directory, episode_ids=scope
        )
        if self.sim.generation == generation:
            yield from self._restored(name, directory, reply, scope)
        return is_good(reply)

    def _source(self) -> str:
        sim = self.sim
        if self.committed is None or sim.chance(0.15):
            return sim.random.choice([*sim.disk.directories, "nowhere"])
        return self.committed

    def _restorable(self, directory: str) -> tuple[EpisodeId, ...]:
        sim = self.sim
        found = sim.ledger.contents.get(directory, {}).values()
        keep = 1.0 if sim.chance(0.7) else 0.6
        episodes = {episode: None for episode, _ in found if sim.chance(keep)}
        if sim.chance(0.2):
            episodes[EpisodeId("nobody")] = None
        return tuple(episodes)

    def _restored(
        self,
        name: str,
        directory: str,
        reply: Reply | None,
        scope: tuple[EpisodeId, ...],
    ) -> Generator[Any, Any, Any]:
        sim = self.sim
        following = tuple(episode.next_attempt for episode in scope)
        if following and (not is_good(reply) or sim.chance(0.1)):
            some = following if not is_good(reply) else following[:1]
            yield self._send(RetireBody, name, episode_ids=some)
            self.retired += [episode.rollout_id for episode in some]
        elif sim.chance(0.2):
            yield self._send(RenewBody, name)
        generation = sim.generation
        if not sim.chance(0.05):
            yield from self._retried(ResumeBody, name)
        if is_good(reply) and sim.generation == generation:
            restored: Any = reply.document["restored"]
            self._replace(directory, restored)

    def _replace(self, directory: str, restored: Iterable[str]) -> None:
        sim = self.sim
        sessions = {
            episode.next_attempt.capture_key: session
            for session, (episode, _) in sim.ledger.contents[directory].items()
        }
        for key in dict.fromkeys(restored):
            episode = EpisodeId.from_capture_key(key)
            rollout = Rollout(
                episode.rollout_id, episode.attempt, sessions[key], "pending"
            )
            sim.rollouts.known[rollout.name] = rollout
            if not sim.chance(0.1):
                sim.spawn(self._begin_later(rollout))

    def _begin_later(self, rollout: Rollout) -> Generator[Any, Any, Any]:
        sim, generation = self.sim, self.sim.generation
        yield sim.sleep(
            sim.delay(60.0) if sim.chance(0.6) else sim.random.random() * 60.0
        )
        known = sim.rollouts.known.get(rollout.name)
        if known is rollout and sim.generation == generation:
            sim.rollouts.start(rollout, seeds=False)
