"""A deployment on the loopback: an environment server, resources, and a scripted agent."""

from __future__ import annotations

import asyncio
import json
import time

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from loopback import Loopback
from starlette.applications import Starlette
from starlette.datastructures import Secret
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ipistate.agents import PolicyError, PolicyReply
from ipistate.clients import Bounds, HttpClient
from ipistate.deploy import (
    AgentSettings,
    EnvironmentSettings,
    create_agent_app,
    create_environment_app,
)
from ipistate.generate import builtin
from ipistate.kernel import JsonObject, encode
from ipistate.server import ServerSettings, create_app


TOKEN = "a-token"
BOUNDS = Bounds(size=10**8, total=20)
ROW = json.loads(builtin.rows()[0].to_json())
CALLS = builtin.trajectories()[0].benign


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio."""
    return "asyncio"


class ScriptedAgent:
    """Speaks the agent's routes, plays the reference calls, and waits when told to."""

    def __init__(self, client: HttpClient) -> None:
        self.client = client
        self.may_reply = asyncio.Event()
        self.may_reply.set()
        self.calls: list[str] = []
        self.called = asyncio.Condition()
        self.grants: dict[str, list[dict[str, Any]]] = {}

    @property
    def app(self) -> Starlette:
        """Its application."""
        key = "/ng-rollout/{key}"
        return Starlette(
            routes=[
                Route(f"{key}/v1/agent_sessions", self.open, methods=["POST"]),
                Route(f"{key}/v1/responses", self.respond, methods=["POST"]),
                Route(f"{key}/v1/agent_sessions/close", self.end, methods=["POST"]),
            ]
        )

    async def note(self, call: str, request: Any) -> None:
        """Keep a call, and wake who waits for it."""
        async with self.called:
            self.calls.append(f"{call} {request.path_params['key']}")
            self.called.notify_all()

    async def has(self, call: str) -> None:
        """Wait until there was a call."""
        async with self.called:
            await self.called.wait_for(lambda: call in self.calls)

    async def open(self, request: Any) -> Response:
        """Open a session."""
        body = await request.json()
        name = body["agent_session_id"]
        await self.note("open", request)
        self.grants[name] = body["tool_accesses"]
        reply = JSONResponse({"agent_session_id": name})
        reply.set_cookie("agent", name)
        return reply

    async def respond(self, request: Any) -> Response:
        """Play the reference calls with the session's grants."""
        await self.note("respond", request)
        await self.may_reply.wait()
        session = request.cookies["agent"]
        granted = {one["name"]: one for one in self.grants[session]}
        output: list[dict[str, Any]] = []
        for call in CALLS:
            grant = granted[call.name]
            arguments = encode(call.arguments).decode()
            answer = await self.client.send(
                "POST",
                grant["base_url"],
                f"/{call.name}",
                arguments.encode(),
                bounds=BOUNDS,
                headers={"Content-Type": "application/json"},
                cookies=grant["cookies"],
            )
            named = {"type": "function_call", "name": call.name, "call_id": "c"}
            output.append({**named, "arguments": arguments})
            told = {"type": "function_call_output", "call_id": "c"}
            output.append({**told, "output": answer.content.decode()})
        return JSONResponse({"object": "response", "output": output})

    async def end(self, request: Any) -> Response:
        """Close a session."""
        body = await request.json()
        await self.note("close", request)
        return JSONResponse(
            {**body, "agent_observations": None, "resources_cookies": {}}
        )


class ScriptedModel:
    """Plays the reference calls, one a turn, and waits when told to."""

    name = "scripted"

    def __init__(self) -> None:
        self.may_reply = asyncio.Event()
        self.holds_at = 0
        """The turn that waits, counted from 1."""
        self.turns: list[int] = []
        self.asked = asyncio.Condition()
        self.fault: PolicyError | None = None

    async def respond(self, conversation: Any, tools: Any) -> PolicyReply:
        """Reply with the next call, or with words when there is none left."""
        assert tools
        made = sum(item.get("type") == "function_call" for item in conversation)
        async with self.asked:
            self.turns.append(len(conversation))
            number = len(self.turns)
            self.asked.notify_all()
        if number == self.holds_at:
            await self.may_reply.wait()
        if self.fault is not None:
            raise self.fault
        if made == len(CALLS):
            words = {"type": "message", "role": "assistant", "content": "Done."}
            return PolicyReply(items=(JsonObject(words),))
        call, text = CALLS[made], encode(CALLS[made].arguments).decode()
        named = {"type": "function_call", "name": call.name, "call_id": f"c{made}"}
        return PolicyReply(items=(JsonObject({**named, "arguments": text}),))

    async def has_been_asked(self, times: int) -> None:
        """Wait until there were so many turns."""
        async with self.asked:
            await self.asked.wait_for(lambda: len(self.turns) >= times)


@attrs.define(eq=False)
class Deployment:
    """Servers under their names, and calls to them."""

    root: Path
    hosts: Loopback
    client: HttpClient
    agent: ScriptedAgent
    model: Any = attrs.field(factory=ScriptedModel)
    has_real_agent: bool = False
    episode_seconds: float | None = None
    clients: list[HttpClient] = attrs.field(factory=list)

    def stop(self, host: str) -> None:
        """Let a server break every connection."""

        async def gone(scope: Any, *_: object) -> None:
            scope["transport"].abort()

        self.hosts.hosts[host] = gone

    async def close(self) -> None:
        """Close the connections of all servers."""
        for client in self.clients:
            await client.aclose()

    async def status(self, host: str) -> Any:
        """Return the status of a participant."""
        answer = await self.client.send(
            "GET",
            f"http://{host}",
            "/ng-control/v1/checkpoint/status",
            bounds=BOUNDS,
            headers={"Authorization": f"Bearer {TOKEN}"},
        )
        return json.loads(answer.content)

    def start(self) -> None:
        """Put fresh servers in the place of those that are there."""
        token = Secret(TOKEN)
        resources = ServerSettings(instance_name="ipi", checkpoint_token=token)
        environment = EnvironmentSettings(
            server=ServerSettings(instance_name="environment", checkpoint_token=token),
            resources_url="http://resources",
            agent_url="http://agent",
            episode_seconds=self.episode_seconds,
        )
        self.hosts.hosts["resources"] = create_app(resources)
        client = HttpClient(resolver=self.hosts)
        self.clients.append(client)
        self.hosts.hosts["environment"] = create_environment_app(
            environment, client=client
        )
        self.hosts.hosts["agent"] = (
            self._agent() if self.has_real_agent else self.agent.app
        )

    def _agent(self) -> Starlette:
        settings = AgentSettings(
            server=ServerSettings(
                instance_name="agent", checkpoint_token=Secret(TOKEN)
            ),
            resources_url="http://resources",
            max_steps=20,
            episode_seconds=self.episode_seconds,
        )
        client = HttpClient(resolver=self.hosts)
        self.clients.append(client)
        return create_agent_app(settings, self.model, client=client)

    async def post(
        self, host: str, path: str, body: Any, **headers: str
    ) -> tuple[int, Any]:
        """Send a body, and return the status and the document of the reply."""
        answer = await self.client.send(
            "POST",
            f"http://{host}",
            path,
            json.dumps(body).encode(),
            bounds=BOUNDS,
            headers={"Content-Type": "application/json", **headers},
        )
        return answer.status, json.loads(answer.content)

    async def control(
        self,
        host: str,
        operation: str,
        checkpoint_id: str = "c1",
        seconds: float = 10.0,
        **members: Any,
    ) -> Any:
        """Make a control call that succeeds, and return its document."""
        deadline = time.time() + seconds
        body = {"checkpoint_id": checkpoint_id, "deadline_ts": deadline, **members}
        status, document = await self.post(
            host,
            f"/ng-control/v1/checkpoint/{operation}",
            body,
            Authorization=f"Bearer {TOKEN}",
        )
        assert 200 == status, document
        return document

    async def run(self, attempt: int = 0, **changes: Any) -> tuple[int, Any]:
        """Play an episode of the first built-in row."""
        return await self.post("environment", "/run", run_body(attempt, **changes))


def flat_row(attempt: int = 0, rollout: str = "r") -> dict[str, Any]:
    """Return the flat body of a run."""
    names = {"_ng_rollout_id": rollout, "_ng_attempt_index": attempt}
    return {**ROW, **names}


def run_body(attempt: int = 0, rollout: str = "r", **changes: Any) -> dict[str, Any]:
    """Return the native body of a run."""
    given = dict(ROW)
    params = given.pop("responses_create_params")
    task_input = {"responses_create_params": params, "task_data": given, **changes}
    return {
        "episode_id": {"rollout_id": rollout, "attempt": attempt},
        "task": {
            "task_id": {"taskset": "ipi:example", "task_id": "clinic-1"},
            "task_input": task_input,
        },
    }


@pytest.fixture
async def deployment(tmp_path: Path) -> AsyncIterator[Deployment]:
    """Start a deployment."""
    async with Loopback({}) as hosts, HttpClient(resolver=hosts) as client:
        deployment = Deployment(tmp_path, hosts, client, ScriptedAgent(client))
        deployment.start()
        yield deployment
        await deployment.close()
