"""A server in a process group of its own, so that it can be killed like a machine."""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import signal
import subprocess
import sys
import threading

from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, BinaryIO, Final, Self, cast

from ipistate.errors import IpiStateError


if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

START_SECONDS: Final = 20.0
STOP_SECONDS: Final = 5.0

_READY: Final = re.compile(rb"serving on (http://\S+)")


def end_with_input() -> None:
    """End this process when its standard input ends, as it does with its parent."""

    def watch() -> None:
        # Not through the buffered stream, whose lock would be held at the very end.
        while os.read(0, 4_096):
            pass
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def serve(*options: str) -> tuple[str, ...]:
    """Return the command of ``ipistate serve`` on a free port of the loopback interface."""
    address = ("--host", "127.0.0.1", "--port", "0")
    return ("-m", "ipistate", "serve", *address, *options)


class ServerFailedError(IpiStateError):
    """A server process ended, or said nothing, before it was ready."""


class ServerProcess:
    """A process that serves, ready to answer; killed when the context ends.

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
    async def start(
        cls, command: Sequence[str], log: Path, given: bytes | None = None
    ) -> Self:
        """Start a server and wait for its readiness line.

        Args:
            command: What this interpreter runs, such as ``serve(...)``.
            log: File for what the server writes to standard error.
            given: Written to its standard input, which stays open; None for no input.

        Raises:
            ServerFailedError: It did not become ready; the message says what it wrote.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            if given is not None and process.stdin is not None:
                process.stdin.write(given)
            url = await _readiness(process, log)
        except BaseException:
            _signal(process, signal.SIGKILL)
            await process.communicate()
            raise
        return cls(process, url, asyncio.create_task(_copy(process, log)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # What is cut short does not wait for a server to end in good order.
        await (self.kill() if kind is asyncio.CancelledError else self.stop())

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.returncode

    @property
    def pid(self) -> int:
        """The process id, which is the group's as well."""
        return self._process.pid

    async def ended(self) -> int:
        """Wait until it ends, and return its exit status."""
        return await self._process.wait()

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
    # A server that has nothing to say leaves no file.
    with ExitStack() as stack:
        file: BinaryIO | None = None
        async for line in _stderr(process):
            file = file or stack.enter_context(log.open("ab"))
            file.write(line)
