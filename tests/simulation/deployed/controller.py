"""The controller: it starts rollouts, takes checkpoints, retires, and restores after a crash."""

from __future__ import annotations

import asyncio
import json

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from deployed.endpoint import marked
from deployed.network import SimulatedClient
from deployed.oracle import DeploymentViolation, Line, Outcome, require
from deployed.servers import AGENT, ENTRY, ENVIRONMENT, MODEL, NAMES, TOKEN
from ipistate.agents import AgentStateCodec
from ipistate.capture import LedgerRow
from ipistate.clients import (
    Bounds,
    ControlClient,
    Coordinator,
    HttpError,
    discover_urls,
)
from ipistate.clients.http import BearerKey
from ipistate.coordination import CoordinationError
from ipistate.kernel import freeze
from ipistate.protocol import (
    RUN_BOUNDARIES,
    TURN_BOUNDARIES,
    AgentSessionRecords,
    EnvironmentRecords,
    EpisodeId,
    ModelRecords,
    SessionRecords,
)
from ipistate.sessions import EnvironmentCodec
from ipistate.storage import CaptureLedger, CheckpointDirectory, LedgerError


if TYPE_CHECKING:
    from deployed.world import World

T = TypeVar("T")

_BOUNDS = Bounds(size=10**9, total=10_000.0)
_STATES = AgentStateCodec()
_TRIES = 4
_LIVE = 8
"""Rollouts at a time."""

RECORDS: dict[str, Any] = {
    "environment": EnvironmentRecords(TURN_BOUNDARIES),
    "agent": AgentSessionRecords(RUN_BOUNDARIES),
    "policy_model": ModelRecords(),
    "ipi": SessionRecords(EnvironmentCodec()),
}
KINDS = {"policy_model": "model", "ipi": "resources"}


@attrs.define
class Playing:
    """A rollout without a result."""

    name: str
    row: int
    attempt: int = 0
    task: asyncio.Task[None] | None = None
    is_given_up: bool = False
    """It is being retired; a result that comes meanwhile does not count."""

    @property
    def episode(self) -> EpisodeId:
        """The attempt that is played."""
        return EpisodeId(self.name, self.attempt)


@attrs.frozen
class SavedDeployment:
    """A checkpoint that all have committed."""

    name: str
    attempts: Mapping[str, int]
    line: Line
    known: frozenset[str]
    """Rollouts that go on; others have ended, and their result is on its way."""


class DeploymentController:
    """Drives a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.live: dict[str, Playing] = {}
        self.saved: SavedDeployment | None = None
        self.begun = 0
        self.names = 0
        self.coordinator: Coordinator
        self.client = SimulatedClient(world.network)

    async def run(self) -> None:
        """Live again and again until enough has happened, then come to an end."""
        world = self.world
        while not world.is_over:
            await self._live()
        world.network.lost = world.network.doubled = 0.0
        while self.live:
            await self._live(is_last=True)

    async def _live(self, *, is_last: bool = False) -> None:
        world = self.world
        world.start()
        world.tally["lives"] += 1
        try:
            if await self._found() and await self._recovered():
                await (self._in_peace() if is_last else self._in_danger())
        finally:
            if not world.is_calm and not is_last:
                await self._pause(3.0)  # who is left goes on for a while
            world.crash(NAMES[world.topology])
            tasks = [one.task for one in self.live.values() if one.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pause(self, mean: float) -> None:
        seconds = self.world.random.expovariate(1 / mean)
        await asyncio.sleep(seconds)

    async def _tried(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """Do something again and again, until it succeeds or somebody is dead."""
        for _ in range(_TRIES):
            try:
                return await work()
            except CoordinationError as error:
                self.world.tally[f"failed: {error.code}"] += 1
                if self.world.broken.is_set():
                    return None
                await self._pause(0.5)
        return None

    def _deadline(self) -> float:
        return self.world.loop.time() + self.world.random.choice((2.0, 5.0, 10.0, 30.0))

    def _name(self, what: str) -> str:
        self.names += 1
        return f"{what}{self.names}"

    async def _found(self) -> bool:
        world = self.world
        control = ControlClient(TOKEN, clock=world.loop.time)
        vars(control)["_client"] = SimulatedClient(
            world.network, key=BearerKey(TOKEN, "[token]")
        )
        urls = [f"http://{name}" for name in NAMES[world.topology]]
        found = await self._tried(lambda: discover_urls(urls, control))
        if found is None:
            return False
        self.coordinator = Coordinator(found, control, clock=world.loop.time)
        return True

    # A life

    async def _recovered(self) -> bool:
        saved, world = self.saved, self.world
        if saved is None:
            world.oracle.line = Line()
            for one in self.live.values():
                one.attempt += 1
                world.oracle.starts_over(one.episode)
        elif not await self._restored(saved):
            return False
        for one in self.live.values():
            self._start(one)
        return True

    async def _restored(self, saved: SavedDeployment) -> bool:
        name, directory = self._name("r"), self.world.root / saved.name
        going_on = {n: saved.attempts[n] for n in self.live if n in saved.attempts}
        episodes = [EpisodeId(*one) for one in going_on.items()]
        try:
            await self.coordinator.restore(
                name, self._deadline(), directory, episodes, allow_missing=True
            )
        except CoordinationError as error:
            self.world.tally[f"failed restore: {error.code}"] += 1
            return False
        self.world.tally["restores"] += 1
        self._check_fences(episodes)
        self.world.oracle.line = saved.line.copy()
        for one in self.live.values():
            one.attempt = going_on.get(one.name, one.attempt) + 1
            if one.name not in saved.known:
                self.world.oracle.line.leftovers.add(one.name)
                self.world.oracle.starts_over(one.episode)
        if self.world.random.random() < 0.3:
            # Before anything goes on, and before anybody may.
            await self._pause(0.2)
        if await self._resumed(name) and self.world.random.random() < 0.2:
            await self._checkpoint()
        return not self.world.broken.is_set()

    def _check_fences(self, episodes: list[EpisodeId]) -> None:
        """The calls of the executions that are over are retired, for whoever is late."""
        for episode in episodes:
            try:
                self._rows(episode.capture_key)
            except LedgerError as error:
                require(error.code == "is_retired", f"{episode}: {error}")
            else:
                require(False, f"{episode}: a restore lost the fence")

    async def _resumed(self, name: str) -> bool:
        done = await self._tried(
            lambda: self.coordinator.resume(name, self._deadline())
        )
        return done is not None

    async def _in_danger(self) -> None:
        world = self.world
        while not world.broken.is_set() and not world.is_over:
            self._top_up()
            with suppress(TimeoutError):
                async with asyncio.timeout(world.random.expovariate(1 / 2.0)):
                    await world.broken.wait()
            if world.is_calm:
                continue
            await self._act()

    async def _act(self) -> None:
        world = self.world
        choice = world.random.random()
        if choice < 0.55:
            await self._checkpoint()
        elif choice < 0.75:
            await self._retire()
        elif choice < 0.8:
            await self._forget()
        elif choice < 0.9:
            world.light_a_fuse()
        elif choice < 0.93:
            world.crash_some()

    async def _in_peace(self) -> None:
        tasks = [one.task for one in self.live.values() if one.task is not None]
        await asyncio.gather(*tasks)
        require(not self.live, "a rollout does not come to its end")
        await asyncio.sleep(60.0)  # what is closed after a result
        for participant in (await self.coordinator.status()).answers:
            counts = participant.reply.report.counts
            name = participant.participant.name
            left = {k: n for k, n in counts.items() if n}
            require(not left, f"{name} has something left over: {left}")
            require(participant.reply.phase == "idle", f"{name} is not idle")

    # Rollouts

    def _top_up(self) -> None:
        while len(self.live) < _LIVE:
            one = Playing(f"x{self.begun}", self.begun)
            self.begun += 1
            self.live[one.name] = one
            self._start(one)

    def _start(self, one: Playing) -> None:
        loop, one.is_given_up = asyncio.get_running_loop(), False
        one.task = loop.create_task(self._play(one, one.attempt))

    async def _play(self, one: Playing, attempt: int) -> None:
        while True:
            answer = await self._sent(one, attempt)
            if answer is None or one.attempt != attempt or one.is_given_up:
                return
            status, document = answer
            if status == 200:
                try:
                    self._finished(one, document)
                except DeploymentViolation as violation:
                    self.world.network.errors.append(violation)
                    self.world.give_up()
                return
            code = document.get("error", {}).get("code")
            if code not in {"admission_closed", "checkpoint_error"}:
                self.world.tally[f"run answered {status} {code}"] += 1
                return
            await self._pause(1.0)

    async def _sent(self, one: Playing, attempt: int) -> tuple[int, Any] | None:
        await self._pause(0.3)
        body = _body(self.world.topology, one, attempt)
        try:
            answer = await self.client.send(
                "POST",
                f"http://{ENTRY[self.world.topology]}",
                "/run",
                body,
                bounds=_BOUNDS,
                headers={"Content-Type": "application/json"},
            )
        except HttpError:
            return None
        return answer.status, json.loads(answer.content)

    def _finished(self, one: Playing, document: Any) -> None:
        if self.world.topology == "native":
            if document["failure"] is not None:
                self.world.tally[f"failure at {document['failure']['stage']}"] += 1
                return
            document = document["result"]
        found = Outcome(document["reward"], _plain(document["response"]["output"]))
        self.world.oracle.finished(one.name, one.row, found)
        self.world.oracle.lineage(
            one.name,
            self._rows(one.episode.capture_key),
            self.world.endpoint.staging.calls,
        )
        del self.live[one.name]

    def _rows(self, key: str) -> tuple[LedgerRow, ...]:
        return CaptureLedger(self.world.root / "ledger").rows(key)

    # Checkpoints

    async def _checkpoint(self) -> None:
        world, name = self.world, self._name("c")
        prepared = await self._tried(
            lambda: self.coordinator.prepare(name, self._deadline())
        )
        if prepared is not None and prepared.ready:
            await self._commit(name)
        if world.random.random() < 0.1:
            world.tally["leases left to run out"] += 1
            return
        await self._resumed(name)

    async def _commit(self, name: str) -> None:
        world = self.world
        attempts = {one.name: one.attempt for one in self.live.values()}
        episodes = [one.episode for one in self.live.values()]
        directory = world.root / name
        done = await self._tried(
            lambda: self.coordinator.commit(name, self._deadline(), directory, episodes)
        )
        if done is None:
            return
        world.tally["checkpoints"] += 1
        records = {
            n: CheckpointDirectory(directory, n, KINDS.get(n, n))
            .read_records(RECORDS[n])
            .records
            for n in NAMES[world.topology]
        }
        held = _turns(records[AGENT], records.get(ENVIRONMENT, ()))
        entry = records[ENTRY[world.topology]]
        known = frozenset(one.episode_id.rollout_id for one in entry)
        calls = [row.model_call_id for one in records[MODEL] for row in one.rows]
        _check_model(records[MODEL], held, known, world)
        line = world.oracle.line.fork(held, calls)
        self.saved = SavedDeployment(name, attempts, line, known)

    async def _retire(self) -> None:
        if not self.live:
            return
        one = self.world.random.choice([*self.live.values()])
        attempt, name, one.is_given_up = one.attempt, self._name("x"), True
        done = await self._tried(
            lambda: self.coordinator.retire(
                name, self._deadline(), [EpisodeId(one.name, attempt)]
            )
        )
        if done is None:
            return
        self.world.tally["retired"] += 1
        one.attempt += 1
        self.world.oracle.starts_over(one.episode)
        self._start(one)

    async def _forget(self) -> None:
        gone = [f"x{n}" for n in range(self.begun) if f"x{n}" not in self.live]
        if gone:
            await self._tried(
                lambda: self.coordinator.forget(
                    self._name("f"), self._deadline(), gone[-5:]
                )
            )


def _body(topology: str, one: Playing, attempt: int) -> bytes:
    row = marked(one.row, one.name)
    if topology == "relay":
        names = {"_ng_rollout_id": one.name, "_ng_attempt_index": attempt}
        return json.dumps({**row, **names}).encode()
    params = row.pop("responses_create_params")
    task_input = {"responses_create_params": params, "task_data": row}
    document = {
        "episode_id": {"rollout_id": one.name, "attempt": attempt},
        "task": {
            "task_id": {"taskset": "ipi:x", "task_id": one.name},
            "task_input": task_input,
        },
    }
    return json.dumps(document).encode()


def _plain(output: list[Any]) -> tuple[Any, ...]:
    # The ids of calls are the endpoint's, and new with every reply.
    names = {"call_id", "id"}
    return tuple(
        json.dumps({n: v for n, v in one.items() if n not in names}, sort_keys=True)
        for one in output
    )


_ALL = 10**6
"""More turns than any rollout has: its response is complete."""


def _turns(sessions: Any, episodes: Any) -> dict[str, int]:
    """Count the turns of each rollout whose replies a checkpoint has."""
    found: dict[str, int] = {}
    for record in sessions:
        turns = 0
        if record.boundary is not None:
            turns = _STATES.decode(record.boundary, freeze).conversation.turns
        kept = record.session
        ended = hasattr(record.episode, "response") or bool(kept.get("activations"))
        found[record.episode_id.rollout_id] = _ALL if ended else turns
    for record in episodes:
        if hasattr(record.boundary, "response") or hasattr(record.boundary, "result"):
            found[record.episode_id.rollout_id] = _ALL
    return found


def _check_model(
    records: Any, held: Mapping[str, int], known: frozenset[str], world: World
) -> None:
    """A checkpoint has the rows of the replies that its agent has, and one more at most."""
    for record in records:
        name, calls = record.episode_id.rollout_id, world.oracle.calls
        turns = {calls[row.model_call_id][1] for row in record.rows}
        for row in record.rows:
            require(
                row.response_id in world.oracle.delivered,
                f"{name}: a checkpoint has a row of an undelivered call",
            )
        least = held.get(name, 0)
        if name in world.oracle.line.leftovers:
            continue
        require(turns == {*range(len(turns))}, f"{name}: rows of turns {turns}")
        require(
            name not in known or least == _ALL or len(turns) - least in {0, 1},
            f"{name}: rows of {len(turns)} turns, and the agent has {least}",
        )
