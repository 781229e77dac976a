"""A server in a process group of its own, so that it can be killed like a machine."""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import signal
import sys

from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self, cast

from ipistate.errors import IpiStateError


if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

START_SECONDS: Final = 20.0
STOP_SECONDS: Final = 5.0

_READY: Final = re.compile(rb"serving on (http://\S+)")


class ServerFailedError(IpiStateError):
    """A server process ended, or said nothing, before it was ready."""


class ServerProcess:
    """``python -m ipistate serve``, ready to answer; killed when the context ends.

    Args:
        process: The process, the leader of its group.
        url: Where it listens, from its readiness line.
        log: What takes the rest of its standard error.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, url: str, log: asyncio.Task[None]
    ) -> None:
        self._process = process
        self._log = log
        self.url = url
        # For an interruption that cuts even the clean-up short.
        atexit.register(self._kill)

    @classmethod
    async def start(cls, options: Sequence[str], log: Path) -> Self:
        """Start a server on a free port of the loopback interface.

        Args:
            options: Further options of ``ipistate serve``.
            log: File for what the server writes to standard error.

        Raises:
            ServerFailedError: It did not become ready; the message says what it wrote.
        """
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-m", "ipistate", "serve"],
            *["--host", "127.0.0.1", "--port", "0", *options],
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            url = await _readiness(process, log)
        except BaseException:
            _signal(process, signal.SIGKILL)
            await process.communicate()
            raise
        return cls(process, url, asyncio.create_task(_copy(process, log)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def pid(self) -> int:
        """The process id, which is the group's as well."""
        return self._process.pid

    async def kill(self) -> int:
        """Send SIGKILL to the whole group and return the exit status (-9)."""
        return await self._end(signal.SIGKILL)

    async def stop(self) -> int:
        """Ask the server to end; kill it if it takes too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                return await self._end(signal.SIGTERM)
        return await self.kill()

    async def _end(self, number: signal.Signals) -> int:
        _signal(self._process, number)
        status = await self._process.wait()
        await self._log
        atexit.unregister(self._kill)
        return status

    def _kill(self) -> None:
        _signal(self._process, signal.SIGKILL)


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def _stderr(process: asyncio.subprocess.Process) -> asyncio.StreamReader:
    # It was asked for, so it is there.
    return cast("asyncio.StreamReader", process.stderr)


async def _readiness(process: asyncio.subprocess.Process, log: Path) -> str:
    said: list[bytes] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS):
            async for line in _stderr(process):
                said.append(line)
                ready = _READY.search(line)
                if ready is not None:
                    return ready[1].decode()
    raise _failure(said, log)


def _failure(said: Sequence[bytes], log: Path) -> ServerFailedError:
    log.write_bytes(b"".join(said))
    message = "the server did not become ready"
    tail = b"".join(said[-5:]).decode(errors="replace").strip()
    return ServerFailedError("server_failed", message, preview=tail or None)


async def _copy(process: asyncio.subprocess.Process, log: Path) -> None:
    with log.open("ab") as file:
        async for line in _stderr(process):
            file.write(line)
