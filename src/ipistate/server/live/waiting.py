"""Waiting for the machine, and noticing that the one who asked has gone away."""

from __future__ import annotations

import asyncio

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar


if TYPE_CHECKING:
    from collections.abc import Generator

    from starlette.types import Message, Receive

A = TypeVar("A")


class Pending(Generic[A]):
    """A request at the gate, or a control call, until the machine answers it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.answer: A | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether a waiter sleeps until the answer comes."""
        return self._waiter is not None and not self._waiter.done()

    def settle(self, answer: A) -> None:
        """Take the machine's answer."""
        self.answer = answer
        self.wake()

    def wake(self) -> None:
        """End the waiting, with or without an answer."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def settled(self, receive: Receive) -> Receive:
        """Wait for the answer, or until the client goes away.

        Args:
            receive: The request's channel, read from meanwhile to see its end. The
                body is complete: nothing else can come that would have to be kept.

        Returns:
            A channel that first gives what was read meanwhile.
        """
        self._waiter = asyncio.get_running_loop().create_future()
        with _watching(receive, self) as channel:
            await self._waiter
        return channel


@contextmanager
def _watching(receive: Receive, pending: Pending[A]) -> Generator[Receive, None, None]:
    seen: deque[Message] = deque()

    async def watch() -> None:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                pending.wake()
                return
            seen.append(message)

    async def channel() -> Message:
        return seen.popleft() if seen else await receive()

    watcher = asyncio.ensure_future(watch())
    try:
        yield channel
    finally:
        watcher.cancel()
