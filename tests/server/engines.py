"""A server on a socket in this process, on either event loop and with either parser."""

from __future__ import annotations

import asyncio
import json
import time

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, Self

import pytest

from starlette.datastructures import Secret

from ipistate.server import ServerSettings
from ipistate.server.operating.connections import StalledConnections
from ipistate.server.serve import IpistateServer, config_of


if TYPE_CHECKING:
    from ipistate.server.live.shell import Shell
    from ipistate.server.operating.connections import Connection

Engine = tuple[Literal["asyncio", "uvloop"], Literal["h11", "httptools"]]
ENGINES: list[Engine] = [
    ("asyncio", "h11"),
    ("asyncio", "httptools"),
    ("uvloop", "h11"),
    ("uvloop", "httptools"),
]
TOKEN = "a-token"


class Served:
    """A running server whose clock for stalled connections the test moves."""

    def __init__(self, settings: ServerSettings, engine: Engine) -> None:
        """Make it; ``running`` starts it."""
        loop, http = engine
        self.stalled = StalledConnections(settings)
        config = config_of(settings, port=0, loop=loop, http=http)
        self.server = IpistateServer(config, self.stalled)
        self.now = 1_000.0
        self.callers: list[Caller] = []

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Self]:
        """Listen until the end of the block."""
        config = self.server.config
        config.load()
        self.server.lifespan = config.lifespan_class(config)
        await self.server.startup()
        try:
            yield self
        finally:
            for caller in self.callers:
                caller.hang_up()
            for connection in self.connections:
                connection.transport.abort()
            await self.server.shutdown()

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self.server.servers[0].sockets[0].getsockname()[1]
        return port

    @property
    def connections(self) -> list[Connection]:
        """What is open."""
        return list(self.server.open_connections)

    @property
    def app(self) -> Any:
        """The application, without what uvicorn puts around it."""
        return self.server.config.app

    @property
    def shell(self) -> Shell:
        """What performs the machine's actions."""
        shell: Shell = self.app.state.shell
        return shell

    @property
    def inflight(self) -> int:
        """Requests that the machine counts."""
        report: Any = self.shell.status()["report"]
        counted: int = report["counts"]["inflight"]
        return counted

    def wait(self, seconds: float) -> None:
        """Let time pass, and look at the connections."""
        self.now += seconds
        self.stalled.look(self.connections, self.now)

    async def emptied(self) -> None:
        """Wait until no connection is open, and nothing is held or counted."""
        uploads = self.app.state.uploads
        await until(lambda: not self.connections)
        await until(lambda: not uploads.size and not self.shell.waiting)
        assert 0 == self.inflight

    async def connect(self) -> Caller:
        """Open a connection that the server knows of."""
        known = len(self.connections)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        caller = Caller(reader, writer)
        self.callers.append(caller)
        await until(lambda: len(self.connections) > known)
        return caller

    async def call(self, request: bytes) -> bytes:
        """Send a request on a connection of its own and return the whole reply."""
        caller = await self.connect()
        caller.send(request)
        return await caller.reply()


class Caller:
    """A plain connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Take both directions."""
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        """Send something."""
        if not self.writer.is_closing():
            self.writer.write(data)

    async def reply(self) -> bytes:
        """Return all that comes until the server closes the connection."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""

    def hang_up(self) -> None:
        """Close the connection at once."""
        self.writer.transport.abort()


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop turn until something holds."""
    while not holds():  # noqa: ASYNC110 - what it waits for is a state, not an event
        await asyncio.sleep(0)


def request(
    path: str,
    document: Any = None,
    *headers: str,
    method: str = "POST",
    close: bool = True,
) -> bytes:
    """Write a request that is as it should be."""
    body = b"" if document is None else json.dumps(document).encode()
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *headers,
        *(["Connection: close"] if close else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def control(name: str, **members: Any) -> bytes:
    """Write a control call."""
    deadline = time.time() + 60
    body = {"checkpoint_id": "c-1", "deadline_ts": deadline, **members}
    path = f"/ng-control/v1/checkpoint/{name}"
    return request(path, body, f"Authorization: Bearer {TOKEN}")


def serve(
    engine: Engine, scenario: Callable[[Served], Awaitable[None]], **given: Any
) -> None:
    """Run a scenario against a server of its own."""
    factory = None
    if engine[0] == "uvloop":
        factory = pytest.importorskip("uvloop").new_event_loop
    if engine[1] == "httptools":
        pytest.importorskip("httptools")
    settings = ServerSettings(checkpoint_token=Secret(TOKEN), **given)

    async def run() -> None:
        async with Served(settings, engine).running() as served:
            await scenario(served)

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(asyncio.wait_for(run(), 20))
