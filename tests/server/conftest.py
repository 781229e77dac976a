"""A server in this process, and the means to talk to it."""

from __future__ import annotations

import asyncio
import json
import time

from contextlib import AsyncExitStack

import httpx
import pytest

from starlette.datastructures import Secret

from ipistate.server.app import create_app
from ipistate.server.operating.settings import ServerSettings


CONTROL = "/ng-control/v1/checkpoint"
TOKEN = "a-token"
WORLD = {
    "patients": {"P-7742": {"name": "R. Osei", "chart_notes": "Stable."}},
    "messages": [],
}
INJECTION = {
    "goal": "g",
    "target_tool": "update_patient_chart",
    "target_args": {"patient_id": "P-7742"},
    "verification_type": "check_chart_updated",
    "attack_strategy": "direct",
    "attack_difficulty": "easy",
    "vector": "chart",
    "injection_text": "t",
    "category": "integrity",
}


@pytest.fixture
def anyio_backend():
    """Run asynchronous tests on asyncio, as uvicorn does."""
    return "asyncio"


@pytest.fixture
def world():
    """Return a small world as plain data."""
    return json.loads(json.dumps(WORLD))


@pytest.fixture
def verify_body():
    """Return a verify request that passes validation."""
    return {
        "responses_create_params": {"input": []},
        "response": {"output": []},
        "injection": INJECTION,
    }


class Client(httpx.AsyncClient):
    """A caller with a cookie jar, a checkpoint token and a shorthand for control."""

    async def control(self, name, checkpoint_id="c-1", *, seconds=20.0, **members):
        """Make a control call with the token."""
        body = {"checkpoint_id": checkpoint_id, "deadline_ts": time.time() + seconds}
        return await self.post(
            f"{CONTROL}/{name}",
            json={**body, **members},
            headers={"authorization": f"Bearer {TOKEN}"},
        )

    async def status(self):
        """Return the participant's status."""
        reply = await self.get(
            f"{CONTROL}/status", headers={"authorization": f"Bearer {TOKEN}"}
        )
        return reply.json()

    async def seed(self, world=None, *, key=None, **options):
        """Seed the client's session, for an episode if there is a key."""
        prefix = "" if key is None else f"/ng-rollout/{key}"
        body = {"environment": WORLD if world is None else world}
        reply = await self.post(f"{prefix}/seed_session", json=body, **options)
        assert reply.status_code == 200, reply.text

    async def extended(self, name, body=None, *, key=None, headers=None):
        """Call a route of the extension with the token: GET without a body."""
        given = {"authorization": f"Bearer {TOKEN}", **(headers or {})}
        if key is not None:
            given["idempotency-key"] = key
        method = "GET" if body is None else "POST"
        address = f"/ipistate/v1/{name}"
        return await self.request(method, address, json=body, headers=given)

    async def exported(self):
        """Return the bytes of the session's export."""
        reply = await self.extended("export")
        assert reply.status_code == 200, reply.text
        return reply.content

    async def counts(self):
        """Return the counts of the participant's report."""
        return (await self.status())["report"]["counts"]


@pytest.fixture
async def connect(anyio_backend):
    """Return a maker of clients; one without an app gets a server of its own."""
    async with AsyncExitStack() as stack:

        async def make(app=None, *, cookies=None, steady=time.monotonic, **settings):
            settings.setdefault("checkpoint_token", Secret(TOKEN))
            app = app or create_app(ServerSettings(**settings), steady=steady)
            return await stack.enter_async_context(client_of(app, cookies))

        yield make


def client_of(app, cookies=None):
    """Return a client of an application."""
    client = Client(
        transport=httpx.ASGITransport(app, raise_app_exceptions=False),
        base_url="http://server.test",
        cookies=cookies,
    )
    client.app = app
    return client


@pytest.fixture(scope="session")
def fresh():
    """Return a maker of clients with a server of their own, with the extension."""

    def make(steady=time.monotonic, **settings):
        given = {"checkpoint_token": Secret(TOKEN), "extension": True, **settings}
        return client_of(create_app(ServerSettings(**given), steady=steady))

    return make


@pytest.fixture
async def extended(connect):
    """Return a maker of clients of one server with the extension.

    The maker takes the cookie that a fork or an import has given.
    """
    app = None

    async def make(cookie=None, **settings):
        nonlocal app
        if app is None or settings:
            client = await connect(extension=True, **settings)
            app = client.app
        else:
            client = await connect(app)
        if cookie is not None:
            name, _, value = cookie.partition("=")
            client.cookies.set(name, value)
        return client

    return make


class Wire:
    """One request at the level of ASGI, so that a client can leave at any point."""

    def __init__(self, app, path, body=b"{}", *, cookie=None, headers=None):
        self.sent = []
        self._inbox = asyncio.Queue()
        given = {"content-type": "application/json", **(headers or {})}
        if cookie is not None:
            given["cookie"] = cookie
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(k.encode(), v.encode()) for k, v in given.items()],
        }
        if body is not None:
            self.give(body)
        self.task = asyncio.ensure_future(app(scope, self._inbox.get, self._send))

    async def _send(self, message):
        self.sent.append(message)

    def give(self, body, *, more=False):
        """Send a part of the body."""
        message = {"type": "http.request", "body": body, "more_body": more}
        self._inbox.put_nowait(message)

    def hang_up(self):
        """Close the connection."""
        self._inbox.put_nowait({"type": "http.disconnect"})

    @property
    def status(self):
        """Return the answer's status, None while there is none."""
        return self.sent[0]["status"] if self.sent else None

    @property
    def document(self):
        """Return the answer's JSON body."""
        return json.loads(self.sent[1]["body"])


@pytest.fixture(scope="session")
def wire():
    """Return the class of raw requests."""
    return Wire


@pytest.fixture(scope="session")
def settled():
    """Return a function that lets everything happen that needs no more input."""

    async def wait():
        for _ in range(20):
            await asyncio.sleep(0)

    return wait
