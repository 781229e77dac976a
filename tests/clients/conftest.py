"""Scripted participants of every kind, and a network that leads to them."""

from __future__ import annotations

import json
import time

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Self

import pytest

from loopback import Loopback
from starlette.datastructures import Secret

from ipistate.clients.control_client import PAUSES, ControlClient
from ipistate.clients.coordinator import Coordinator
from ipistate.clients.discovery import discover
from ipistate.server import ServerSettings
from ipistate.server.app import create_app


if TYPE_CHECKING:
    from starlette.applications import Starlette


PREFIX = "/ng-control/v1/checkpoint/"
TOKEN = "a-token"
SERVER_TYPES = {
    "environment": "environment_servers",
    "model": "responses_api_models",
    "agent": "responses_api_agents",
    "resources": "resources_servers",
}


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio."""
    return "asyncio"


def report(**members: Any) -> dict[str, Any]:
    """Return a report as the spec shows it, ready unless told otherwise."""
    whole = {
        "ready": True,
        "blockers": [],
        "blocker_count": 0,
        "counts": {"inflight": 0, "sessions": 2},
        "restarts": [],
    }
    return whole | members


def key(episode: dict[str, int | str], later: int = 0) -> str:
    """Return the capture key of an episode id, or of a later attempt."""
    attempt = int(episode.get("attempt", 0)) + later
    rollout = str(episode["rollout_id"])
    return f"{rollout}-a{attempt}" if attempt else rollout


class Peer:
    """A participant that notes every call and answers as the spec does, or as told.

    Args:
        kind: Its kind; None for a server without the control routes.
        name: Its name in the deployment.
        notes: Takes ``(operation, name)`` when a call comes, and again when it ends.
        gathered: Waits until all calls that have begun have come to their participants.
    """

    def __init__(
        self,
        kind: str | None,
        name: str,
        notes: list[Any],
        gathered: Callable[..., Awaitable[None]],
    ) -> None:
        self.kind, self.name, self.notes = kind, name, notes
        self.gathered = gathered
        self.script: dict[str, Any] = {}
        self.bodies: list[tuple[str, Any]] = []

    def answers(
        self, operation: str, document: str | dict[str, Any] | None, status: int = 200
    ) -> None:
        """Answer an operation with this from now on."""
        self.script[operation] = (status, document)

    def refuses(
        self, operation: str, code: str = "checkpoint_error", status: int = 409
    ) -> None:
        """Refuse an operation from now on."""
        document = {"error": {"code": code, "detail": f"no {operation}"}}
        self.answers(operation, document, status)

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[..., Any],
        send: Callable[..., Any],
    ) -> None:
        """Serve one request."""
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        status, document = await self.reply(scope, json.loads(body or b"null"))
        text = json.dumps(document).encode()
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": text})

    async def reply(
        self, scope: dict[str, Any], body: dict[str, Any] | None
    ) -> tuple[int, str | dict[str, Any] | None]:
        """Note a call, let all of its stage come in, and give its status and document."""
        if self.kind is None:
            return 404, {"detail": "Not Found"}
        if dict(scope["headers"]).get(b"authorization") != f"Bearer {TOKEN}".encode():
            return 401, {"error": {"code": "unauthorized", "detail": "no token"}}
        operation = scope["path"].removeprefix(PREFIX)
        assert ("GET" if operation == "status" else "POST") == scope["method"]
        self.notes.append((operation, self.name))
        self.bodies.append((operation, body))
        await self.gathered()
        self.notes.append((f"{operation} done", self.name))
        return self.script.get(operation) or (200, self.document(operation, body))

    def document(self, operation: str, body: Any) -> dict[str, Any]:
        """Return the document of a call that succeeds."""
        match operation:
            case "status":
                return {
                    "kind": self.kind,
                    "instance": self.name,
                    "phase": "idle",
                    "checkpoint_id": None,
                    "lease_expires_at": None,
                    "retired_rollouts": 0,
                    "report": report(),
                }
            case "prepare":
                return {"phase": "prepared", "report": report()}
            case "renew":
                return {"lease_expires_at": body["deadline_ts"] + 600}
            case "commit":
                return self.committed(body)
            case "restore":
                restored = [key(one, 1) for one in body["episode_ids"]]
                return {
                    "phase": "restored",
                    "source_checkpoint_id": "step-120",
                    "restored": sorted(restored),
                }
            case "resume":
                return {"phase": "idle", "idempotent": False}
            case "retire":
                return {"retired": [key(one) for one in body["episode_ids"]]}
            case "forget":
                return {"forgotten": sorted(body["rollout_ids"])}
            case _:
                raise AssertionError(operation)

    def committed(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the reply to a commit."""
        keys = sorted(key(one) for one in body["episode_ids"] or [])
        digest = "0" * 64
        manifest = {
            "schema_version": 1,
            "kind": self.kind,
            "instance": self.name,
            "checkpoint_id": body["checkpoint_id"],
            "records_file": f"records-{digest}.jsonl",
            "records_sha256": digest,
            "record_count": len(keys),
        }
        reply = {"phase": "committed", "manifest": manifest, "episode_ids": keys}
        return reply | ({"staging_keys": ["k-1"]} if self.kind == "model" else {})


class Deployment:
    """Peers by name, and what they noted, in order."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []
        self.peers: dict[str, Peer] = {}
        self.network = Loopback({})

    def add(self, kind: str | None, name: str) -> Peer:
        """Add a peer."""
        peer = Peer(kind, name, self.notes, self.network.gathered)
        self.peers[name] = self.network.hosts[f"{name}.test"] = peer
        return peer

    def lose(self, name: str) -> None:
        """Take a server off the network."""
        del self.network.hosts[f"{name}.test"]

    @property
    def config(self) -> dict[str, Any]:
        """The resolved configuration, with entries that are no servers."""
        servers = {
            name: {
                SERVER_TYPES[peer.kind or "resources"]: {
                    "impl": {"host": f"{name}.test", "port": 80}
                }
            }
            for name, peer in self.peers.items()
        }
        return {"checkpoint": {"enabled": True}, "seed": 7, **servers}

    def called(self) -> list[tuple[str, ...]]:
        """Return the stages noted since the last time: ``operation: names``."""
        stages: list[tuple[str, set[str]]] = []
        open_calls = 0
        for operation, name in self.notes:
            if operation.endswith(" done"):
                open_calls -= 1
                continue
            if not open_calls:
                stages.append((operation, set()))
            assert stages[-1][0] == operation
            stages[-1][1].add(name)
            open_calls += 1
        self.notes.clear()
        return [(operation, *sorted(names)) for operation, names in stages]


class Client(ControlClient):
    """A control client in a network of the loopback, which is there while it is open.

    Connections are tried as often as elsewhere, but without pauses.
    """

    def __init__(self, network: Loopback, token: str = TOKEN) -> None:
        super().__init__(token, resolver=network, pauses=[0.0 for _ in PAUSES])
        self.network = network

    async def __aenter__(self) -> Self:
        await self.network.__aenter__()
        return await super().__aenter__()

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(*error)
        await self.network.__aexit__()


@pytest.fixture
def client_of() -> type[Client]:
    """Return a maker of control clients for a network."""
    return Client


@pytest.fixture
async def control(
    anyio_backend: str,
) -> AsyncIterator[Callable[..., Awaitable[ControlClient]]]:
    """Return a maker of open control clients, for a network of the loopback or the real one."""
    async with AsyncExitStack() as stack:

        async def make(
            network: Loopback | None = None, token: str = TOKEN
        ) -> ControlClient:
            client = Client(network, token) if network else ControlClient(token)
            return await stack.enter_async_context(client)

        yield make


@pytest.fixture
def deployment() -> Deployment:
    """Return a deployment of all four kinds, two agents, and a relay without routes."""
    whole = Deployment()
    for kind, name in [
        *[("resources", "ipi"), ("agent", "agent-b"), ("agent", "agent-a")],
        *[("model", "policy"), ("environment", "env"), (None, "relay")],
    ]:
        whole.add(kind, name)
    return whole


@pytest.fixture
async def coordinator(
    deployment: Deployment, control: Callable[..., Awaitable[ControlClient]]
) -> Coordinator:
    """Return a coordinator of the deployment, its discovery not noted."""
    client = await control(deployment.network)
    found = await discover(deployment.config, client)
    deployment.called()
    return Coordinator(found, client)


@pytest.fixture
def ours() -> Callable[..., Starlette]:
    """Return a maker of our own application."""

    def make(clock: Callable[[], float] = time.time, **settings: Any) -> Starlette:
        given = ServerSettings(checkpoint_token=Secret(TOKEN), **settings)
        return create_app(given, clock=clock)

    return make


@pytest.fixture
def network() -> type[Loopback]:
    """Return a maker of networks from host names to applications."""
    return Loopback
