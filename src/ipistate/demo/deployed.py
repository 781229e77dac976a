"""A deployment that a demo starts and kills, and rollouts that are played in it."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket

from contextlib import ExitStack, asynccontextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import attrs

from ipistate.clients import (
    JSON,
    Bounds,
    ControlClient,
    Coordinator,
    HttpClient,
    HttpError,
    discover_urls,
)
from ipistate.deploy import CALLS_PATH, DeploymentProcesses, plan_of
from ipistate.generate import builtin
from ipistate.kernel import JsonObject, decode, encode, freeze
from ipistate.protocol import RUN_PATH, EpisodeId


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping
    from pathlib import Path

    from ipistate.deploy import DeploymentPlan

Topology: TypeAlias = Literal["native", "relay"]
TOPOLOGIES: Final[tuple[Topology, ...]] = ("native", "relay")

MODEL: Final = "policy_model"
AGENT: Final = "agent"
RESOURCES: Final = "ipi"
SCRIPTED: Final = "scripted"
_ENTRY: Final = {"native": "environment", "relay": "relay"}

_RUN_BOUNDS: Final = Bounds(size=256 * 2**20, total=600.0, connect=5.0)
_SHORT_BOUNDS: Final = Bounds(size=2**20, total=10.0, connect=5.0)

_UNEQUAL: Final = frozenset({"_ng_rollout_id", "_ng_attempt_index"})
"""Members of a result that tell how it came about, and not what it is."""


@attrs.frozen
class DeployedRollout:
    """A built-in row that is played in a deployment."""

    name: str
    row: int

    def document(self) -> dict[str, Any]:
        """Return the row."""
        rows = _rows()
        return rows[self.row % len(rows)]

    def body(self, topology: Topology, attempt: int) -> bytes:
        """Write the request that plays it."""
        row = self.document()
        if topology == "relay":
            names = {"_ng_rollout_id": self.name, "_ng_attempt_index": attempt}
            return encode(JsonObject({**row, **names}))
        given = dict(row)
        task_input = {
            "responses_create_params": given.pop("responses_create_params"),
            "task_data": JsonObject(given),
        }
        task_id = {"taskset": "ipi:builtin", "task_id": f"row-{self.row}"}
        document = {
            "episode_id": {"rollout_id": self.name, "attempt": attempt},
            "task": {"task_id": task_id, "task_input": task_input},
        }
        return encode(freeze(document))


@cache
def _rows() -> tuple[dict[str, Any], ...]:
    return tuple(
        dict(json.loads(task.to_json(), object_hook=JsonObject))
        for task in builtin.rows()
    )


@attrs.frozen(kw_only=True)
class DeployedResult:
    """What a rollout has come to, without what depends on its attempts."""

    text: bytes
    reward: float
    output: tuple[JsonObject, ...]

    @classmethod
    def of(
        cls, topology: Topology, rollout: str, content: bytes
    ) -> DeployedResult | None:
        """Read an answer; None if it says that the episode has failed."""
        document = decode(content)
        found: Any = document
        if topology == "native":
            found = document.get("result") if isinstance(document, JsonObject) else None
        if not isinstance(found, JsonObject) or "reward" not in found:
            return None
        response: Any = found["response"]
        # The right name is left out, so that rollouts of one row can be compared.
        named = {} if response["id"] == f"resp_{rollout}" else {"id": response["id"]}
        anonymous = {n: v for n, v in response.items() if n != "id"} | named
        kept = {n: v for n, v in found.items() if n not in _UNEQUAL}
        text = encode(JsonObject({**kept, "response": JsonObject(anonymous)}))
        reward: Any = found["reward"]
        return cls(text=text, reward=reward, output=tuple(response["output"]))


class DeploymentLife:
    """One life of a deployment: its processes, and who drives and calls them."""

    def __init__(
        self,
        processes: DeploymentProcesses,
        coordinator: Coordinator,
        client: HttpClient,
        topology: Topology,
    ) -> None:
        self.processes: Final = processes
        self.coordinator: Final = coordinator
        self._client = client
        self._topology: Final = topology

    async def play(
        self, rollout: DeployedRollout, attempt: int
    ) -> DeployedResult | None:
        """Play a rollout as this attempt; None if the deployment dies under it."""
        entry = self.processes.running[_ENTRY[self._topology]]
        try:
            answer = await self._client.send(
                "POST",
                entry.url,
                RUN_PATH,
                rollout.body(self._topology, attempt),
                bounds=_RUN_BOUNDS,
                headers=JSON,
            )
        except HttpError:
            return None
        if answer.status != 200:
            return None
        return DeployedResult.of(self._topology, rollout.name, answer.content)

    async def left_over(self) -> dict[str, int]:
        """Count what participants still hold, by their name and what it is."""
        statuses = await self.coordinator.status()
        return {
            f"{one.participant.name}.{what}": count
            for one in statuses.answers
            for what, count in one.reply.report.counts.items()
            if type(count) is int and count
        }

    async def count(self, name: str, what: str) -> int:
        """Return one of a participant's counts."""
        statuses = await self.coordinator.status()
        (found,) = (one for one in statuses.answers if one.participant.name == name)
        return cast("int", found.reply.report.counts[what])


@attrs.frozen
class DeploymentSite:
    """A directory, ports and a token for the lives of a deployment."""

    root: Path
    topology: Topology
    plan: DeploymentPlan
    outside: frozenset[str] = frozenset({SCRIPTED})
    """Servers that stand for what is outside of the deployment, and survive it."""
    token: str = attrs.field(factory=partial(secrets.token_urlsafe, 32), repr=False)

    @asynccontextmanager
    async def model(self) -> AsyncGenerator[None]:
        """Run what is no part of the deployment, and survives it."""
        started = DeploymentProcesses(self.plan, self.root, self.token, self.outside)
        async with started:
            yield

    @asynccontextmanager
    async def life(self) -> AsyncGenerator[DeploymentLife]:
        """Start the deployment; what is left of it at the end is stopped.

        Raises:
            ServerFailedError: A server did not become ready.
            DiscoveryError: A participant does not give its status.
        """
        names = self.plan.servers.keys() - self.outside
        started = DeploymentProcesses(self.plan, self.root, self.token, names)
        async with (
            started as processes,
            HttpClient() as client,
            ControlClient(self.token) as control,
        ):
            urls = [one.url for one in self.plan.participants()]
            found = await discover_urls(urls, control)
            coordinator = Coordinator(found, control)
            yield DeploymentLife(processes, coordinator, client, self.topology)

    async def calls(self, what: str = "asked") -> int:
        """Count the calls that the scripted model has got."""
        async with HttpClient() as client:
            url = self.plan.servers[SCRIPTED].url
            answer = await client.send(
                "GET", url, CALLS_PATH, b"", bounds=_SHORT_BOUNDS
            )
        return int(json.loads(answer.content).get(what, 0))


def site(
    root: Path, topology: Topology, seconds: float, seed: int = 0
) -> DeploymentSite:
    """Plan a deployment on free ports of the loopback interface.

    Args:
        root: Where its files go.
        topology: ``native``: an environment server drives the agent; ``relay``: rows go
            through a relay to the agent's own ``/run``.
        seconds: The longest time of a reply of the scripted model.
        seed: Chooses these times.
    """
    entry: dict[str, Any] = {"kind": _ENTRY[topology], "agent": AGENT}
    if topology == "native":
        entry["resources"] = RESOURCES
    servers: dict[str, dict[str, Any]] = {
        SCRIPTED: {"kind": "scripted", "seconds": seconds, "seed": seed},
        RESOURCES: {"kind": "resources"},
        MODEL: {"kind": "model", "upstream": SCRIPTED},
        AGENT: {"kind": "agent", "resources": RESOURCES, "model": MODEL},
        _ENTRY[topology]: entry,
    }
    return planned_site(root, topology, servers)


def planned_site(
    root: Path,
    topology: Topology,
    servers: dict[str, dict[str, Any]],
    outside: frozenset[str] = frozenset({SCRIPTED}),
) -> DeploymentSite:
    """Plan these servers on free ports of the loopback interface."""
    for server, port in zip(servers.values(), free_ports(len(servers)), strict=True):
        server["port"] = port
    document = cast("JsonObject", freeze({"servers": servers}))
    return DeploymentSite(root, topology, plan_of(document), outside)


def free_ports(count: int) -> list[int]:
    """Find ports of the loopback interface that nobody listens on."""
    with ExitStack() as stack:
        # All at once, so that none is found twice.
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in held]


async def played(
    life: DeploymentLife,
    rollouts: Iterable[DeployedRollout],
    attempts: Mapping[str, int],
) -> dict[str, DeployedResult | None]:
    """Play rollouts at the same time, each as its attempt."""
    chosen = [*rollouts]
    results = await asyncio.gather(
        *(life.play(one, attempts.get(one.name, 0)) for one in chosen)
    )
    return {one.name: result for one, result in zip(chosen, results, strict=True)}


def episodes_of(attempts: Mapping[str, int]) -> tuple[EpisodeId, ...]:
    """Return the episodes of rollouts at their attempts."""
    return tuple(EpisodeId(name, attempt) for name, attempt in attempts.items())
