"""Hosts that exist in a test: names that lead to applications behind a real socket.

It is on the path of the tests: ``import loopback``.
"""

from __future__ import annotations

import asyncio
import socket

from collections.abc import Callable
from typing import Any, Self

import uvicorn

from aiohttp.abc import AbstractResolver
from uvicorn.server import ServerState


class Loopback(AbstractResolver):
    """A name service, and one server on the loopback for all the hosts that it knows.

    An asynchronous context manager, which serves in the loop that runs and can be
    entered by several clients. Requests are told apart by their hosts. Others are not
    found.

    Args:
        hosts: Applications by the names of their hosts.
    """

    def __init__(self, hosts: dict[str, Any]) -> None:
        self.hosts: dict[str, Any] = dict(hosts)
        self.begun = self.arrived = self.users = 0

    async def __aenter__(self) -> Self:
        """Listen on a free port."""
        self.users += 1
        if self.users > 1:
            return self
        config = uvicorn.Config(
            self._app,
            interface="asgi3",
            log_config=None,
            lifespan="off",
            ws="none",
            proxy_headers=False,
        )
        config.load()
        protocol: Any = config.http_protocol_class
        self._all_here = asyncio.Event()
        self._state = ServerState()
        self._server = await asyncio.get_running_loop().create_server(
            lambda: protocol(config=config, server_state=self._state, app_state={}),
            "127.0.0.1",
            0,
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Hang up on all clients when the last one is done."""
        self.users -= 1
        if self.users:
            return
        self._server.close()
        for connection in [*self._state.connections]:
            connection.transport.abort()
        for task in [*self._state.tasks]:
            task.cancel()
        await asyncio.gather(*self._state.tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def resolve(self, host: str, *_: Any, **__: Any) -> list[Any]:
        """Find a host on the loopback, whatever its port is said to be."""
        if host not in self.hosts:
            raise OSError(None, "no such host")
        self.begun += 1
        return self.place(host, self.port)

    def place(self, host: str, port: int) -> list[Any]:
        """Say that a host is at a port of the loopback."""
        members = {"hostname": host, "host": "127.0.0.1", "port": port}
        flags = {"family": socket.AF_INET, "proto": 0, "flags": socket.AI_NUMERICHOST}
        return [members | flags]

    async def close(self) -> None:
        """Keep nothing."""

    async def gathered(self) -> None:
        """Wait until every call that has looked its host up has come here.

        Calls that are made together look their hosts up before the first one arrives.
        """
        while self.arrived < self.begun:
            self._all_here.clear()
            await self._all_here.wait()

    async def _app(
        self,
        scope: dict[str, Any],
        receive: Callable[..., Any],
        send: Callable[..., Any],
    ) -> None:
        self.arrived += 1
        self._all_here.set()
        host = dict(scope["headers"])[b"host"].decode().partition(":")[0]
        # For applications that break the connection.
        scope["transport"] = getattr(send, "__self__").transport  # noqa: B009 - of uvicorn's bound method
        await self.hosts[host](scope, receive, send)
