"""The processes of a deployment: started together, stopped callers first."""

from __future__ import annotations

import asyncio

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, Self

from ipistate.deploy.process import ServerOrder
from ipistate.deploy.server_process import ServerFailedError, ServerProcess


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ipistate.deploy.plan import DeploymentPlan

COMMAND: Final = ("-m", "ipistate.deploy.process")
LOGS: Final = "logs"


class DeploymentProcesses:
    """The servers of a deployment, each a process that answers.

    An asynchronous context manager: it starts all at once, and stops them in order, so
    that nobody calls a server that is gone.

    Args:
        plan: The servers.
        root: Where ledgers and logs are.
        token: Of every control plane.
        only: Names of those that are started; None for all.
    """

    def __init__(
        self,
        plan: DeploymentPlan,
        root: Path,
        token: str,
        only: Iterable[str] | None = None,
    ) -> None:
        self.plan = plan
        self._root = root
        self._token = token
        names = plan.in_order()
        chosen = {*names} if only is None else {*only}
        self.names: tuple[str, ...] = tuple(one for one in names if one in chosen)
        self._running: dict[str, ServerProcess] = {}

    @property
    def running(self) -> Mapping[str, ServerProcess]:
        """The processes by the name of their server, callees first."""
        return self._running

    async def __aenter__(self) -> Self:
        (self._root / LOGS).mkdir(parents=True, exist_ok=True)
        started = await asyncio.gather(
            *map(self._start, self.names), return_exceptions=True
        )
        pairs = zip(self.names, started, strict=True)
        self._running = {n: one for n, one in pairs if isinstance(one, ServerProcess)}
        failures = [one for one in started if isinstance(one, BaseException)]
        if failures:
            await self.kill()
            raise failures[0]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        async with AsyncExitStack() as stack:
            # It leaves them in the other order: callers first.
            for process in self._running.values():
                stack.push_async_exit(process)

    async def _start(self, name: str) -> ServerProcess:
        kind, plan = self.plan.kind(name), self.plan.servers[name]
        order = ServerOrder.of(name, kind, plan, self._root, self._token)
        try:
            return await ServerProcess.start(
                COMMAND,
                self._root / LOGS / f"{name}.log",
                order.to_line(),
            )
        except ServerFailedError as error:
            message = f"{name}: {error.message}"
            raise ServerFailedError(
                error.code, message, preview=error.preview
            ) from None

    async def kill(self, names: Iterable[str] | None = None) -> None:
        """Send SIGKILL to servers, all of them without names, and wait until they end."""
        chosen = self._running if names is None else names
        await asyncio.gather(*(self._running[name].kill() for name in chosen))

    async def ended(self) -> str:
        """Wait until a server ends, and return its name."""
        waits = {
            asyncio.ensure_future(process.ended()): name
            for name, process in self._running.items()
        }
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return waits[done.pop()]
        finally:
            for one in waits:
                one.cancel()
