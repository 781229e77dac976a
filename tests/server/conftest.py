"""A server in this process, and the means to talk to it."""

from __future__ import annotations

import asyncio
import json
import time

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from starlette.datastructures import Secret
from starlette.middleware import Middleware

from ipistate.server.app import create_app
from ipistate.server.live.shell import Shell
from ipistate.server.operating.settings import ServerSettings


if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


SLOW = "tests.slow"
"""Where the scope of a slow request has its handler's channel."""
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
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio, as uvicorn does."""
    return "asyncio"


@pytest.fixture
def world() -> dict[str, Any]:
    """Return a small world as plain data."""
    found: dict[str, Any] = json.loads(json.dumps(WORLD))
    return found


@pytest.fixture
def verify_body() -> dict[str, Any]:
    """Return a verify request that passes validation."""
    return {
        "responses_create_params": {"input": []},
        "response": {"output": []},
        "injection": INJECTION,
    }


class Client(httpx.AsyncClient):
    """A caller with a cookie jar, a checkpoint token and a shorthand for control."""

    app: Starlette
    shell: Shell

    async def control(
        self,
        name: str,
        checkpoint_id: str = "c-1",
        *,
        seconds: float = 20.0,
        **members: Any,
    ) -> httpx.Response:
        """Make a control call with the token."""
        body = {"checkpoint_id": checkpoint_id, "deadline_ts": time.time() + seconds}
        return await self.post(
            f"{CONTROL}/{name}",
            json={**body, **members},
            headers={"authorization": f"Bearer {TOKEN}"},
        )

    async def status(self) -> dict[str, Any]:
        """Return the participant's status."""
        reply = await self.get(
            f"{CONTROL}/status", headers={"authorization": f"Bearer {TOKEN}"}
        )
        found: dict[str, Any] = reply.json()
        return found

    async def seed(
        self, world: Any = None, *, key: str | None = None, **options: Any
    ) -> None:
        """Seed the client's session, for an episode if there is a key."""
        prefix = "" if key is None else f"/ng-rollout/{key}"
        body = {"environment": WORLD if world is None else world}
        reply = await self.post(f"{prefix}/seed_session", json=body, **options)
        assert reply.status_code == 200, reply.text

    async def extended(
        self,
        name: str,
        body: dict[str, Any] | None = None,
        *,
        key: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """Call a route of the extension with the token: GET without a body."""
        given = {"authorization": f"Bearer {TOKEN}", **(headers or {})}
        if key is not None:
            given["idempotency-key"] = key
        method = "GET" if body is None else "POST"
        address = f"/ipistate/v1/{name}"
        return await self.request(method, address, json=body, headers=given)

    async def exported(self) -> bytes:
        """Return the bytes of the session's export."""
        reply = await self.extended("export")
        assert reply.status_code == 200, reply.text
        return reply.content

    async def counts(self) -> dict[str, int]:
        """Return the counts of the participant's report."""
        found: dict[str, int] = (await self.status())["report"]["counts"]
        return found


@pytest.fixture
async def connect(
    anyio_backend: str,
) -> AsyncIterator[Callable[..., Awaitable[Client]]]:
    """Return a maker of clients; one without an app gets a server of its own."""
    async with AsyncExitStack() as stack:

        async def make(
            app: Starlette | None = None,
            *,
            cookies: dict[str, str] | httpx.Cookies | None = None,
            steady: Callable[[], float] = time.monotonic,
            **settings: Any,
        ) -> Client:
            settings.setdefault("checkpoint_token", Secret(TOKEN))
            app = app or served(ServerSettings(**settings), steady=steady)
            return await stack.enter_async_context(client_of(app, cookies))

        yield make


class SlowHandlers:
    """ASGI middleware behind the gate: a handler gets its body when the test says so.

    A request is in flight as soon as its body is there. Nearly all handlers run without
    a pause then; this is how a test makes one take its time.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Stand before the routes."""
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a slow request read from its own channel."""
        await self.app(scope, scope.get(SLOW, receive), send)


def served(
    settings: ServerSettings, steady: Callable[[], float] = time.monotonic
) -> Starlette:
    """Return an application whose handlers can be slow."""
    app = create_app(settings, steady=steady)
    app.user_middleware.append(Middleware(SlowHandlers))
    return app


def client_of(app: Starlette, cookies: Any = None) -> Client:
    """Return a client of an application."""
    client = Client(
        transport=httpx.ASGITransport(app, raise_app_exceptions=False),
        base_url="http://server.test",
        cookies=cookies,
    )
    client.app = app
    return client


@pytest.fixture(scope="session")
def fresh() -> Callable[..., Client]:
    """Return a maker of clients with a server of their own, with the extension."""

    def make(steady: Callable[[], float] = time.monotonic, **settings: Any) -> Client:
        given: dict[str, Any] = {
            "checkpoint_token": Secret(TOKEN),
            "extension": True,
            **settings,
        }
        return client_of(served(ServerSettings(**given), steady=steady))

    return make


@pytest.fixture
async def extended(
    connect: Callable[..., Awaitable[Client]],
) -> Callable[..., Awaitable[Client]]:
    """Return a maker of clients of one server with the extension.

    The maker takes the cookie that a fork or an import has given.
    """
    app: Starlette | None = None

    async def make(cookie: str | None = None, **settings: Any) -> Client:
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
    """One request at the level of ASGI, so that a client can leave at any point.

    A slow one is let in at once, and what it is given later reaches its handler.
    """

    def __init__(
        self,
        app: Starlette,
        path: str,
        body: bytes | None = b"{}",
        *,
        cookie: str | None = None,
        headers: dict[str, str] | None = None,
        slow: bool = False,
    ) -> None:
        self.sent: list[Message] = []
        self._inbox: asyncio.Queue[Any] = asyncio.Queue()
        given = {"content-type": "application/json", **(headers or {})}
        if cookie is not None:
            given["cookie"] = cookie
        scope: dict[str, Any] = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(k.encode(), v.encode()) for k, v in given.items()],
        }
        self._inboxes = [self._inbox]
        receive = self._inbox.get
        if slow:
            self.give(b"")
            self._inbox = asyncio.Queue()
            self._inboxes.append(self._inbox)
            scope[SLOW] = self._inbox.get
        if body is not None:
            self.give(body)
        self.task: asyncio.Task[Any] = asyncio.ensure_future(
            app(scope, receive, self._send)
        )

    async def _send(self, message: Message) -> None:
        self.sent.append(message)

    def give(self, body: bytes, *, more: bool = False) -> None:
        """Send a part of the body."""
        message = {"type": "http.request", "body": body, "more_body": more}
        self._inbox.put_nowait(message)

    def hang_up(self) -> None:
        """Close the connection."""
        for inbox in self._inboxes:
            inbox.put_nowait({"type": "http.disconnect"})

    @property
    def status(self) -> int | None:
        """Return the answer's status, None while there is none."""
        return self.sent[0]["status"] if self.sent else None

    @property
    def document(self) -> dict[str, Any]:
        """Return the answer's JSON body."""
        found: dict[str, Any] = json.loads(self.sent[1]["body"])
        return found


@pytest.fixture(scope="session")
def wire() -> type[Wire]:
    """Return the class of raw requests."""
    return Wire


@pytest.fixture(scope="session")
def settled() -> Callable[..., Awaitable[None]]:
    """Return a function that lets everything happen that needs no more input."""

    async def wait(turns: int = 20) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)

    return wait
