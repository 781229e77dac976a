"""What runs beside the requests, from the start of a server to its end."""

from __future__ import annotations

import asyncio

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from contextlib import AbstractAsyncContextManager

    from starlette.applications import Starlette

    from ipistate.server.live.shell import Shell
    from ipistate.server.operating.observer import Observer

_SHORTEST_PAUSE: Final = 0.1
"""Seconds between two sweeps, however short the idle time is."""


def lifespan_of(
    observer: Observer, shell: Shell, idle_seconds: float | None
) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    """Return what watches the process, and frees sessions that are idle for too long."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        with observer.watching():
            if idle_seconds is None:
                yield
                return
            pause = max(idle_seconds / 4, _SHORTEST_PAUSE)
            sweeping = asyncio.ensure_future(_sweeping(shell, pause))
            yield
            sweeping.cancel()

    return lifespan


async def _sweeping(shell: Shell, pause: float) -> None:
    while True:
        await asyncio.sleep(pause)
        shell.sweep()
