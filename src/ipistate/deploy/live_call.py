"""A call of a policy model on its way: what waits, what is asked, and who may leave."""

from __future__ import annotations

import asyncio

from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from ipistate.protocol import StartResponse
from ipistate.server import Pending


if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from ipistate.clients import HttpAnswer
    from ipistate.protocol import Admit, Refuse


class LiveCall:
    """What the machine is asked about a call: first to run it, then to answer it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.admission: Pending[Admit | Refuse] = Pending(number)
        self.delivery: Pending[StartResponse] = Pending(number)
        self.asking: asyncio.Task[HttpAnswer] | None = None
        self.is_cancelled: bool = False

    def take(self, action: Admit | Refuse | StartResponse) -> None:
        """Take an answer of the machine."""
        if isinstance(action, StartResponse):
            self.delivery.settle(action)
        else:
            self.admission.settle(action)

    def cancel(self) -> None:
        """Stop what is asked for; the response does not start any more."""
        self.is_cancelled = True
        if self.asking is not None:
            self.asking.cancel()
        self.delivery.wake()


async def until_told(pending: Pending[Any], request: Request) -> None:
    """Wait for an answer of the machine, or until the client leaves."""
    if pending.answer is None:
        await pending.settled(request.receive)


async def until_ended(asking: asyncio.Future[Any], request: Request) -> None:
    """Wait until something is answered, or has been cancelled."""
    # A client that leaves takes its generation with it.
    watch = asyncio.ensure_future(_left(request))
    await asyncio.wait((asking, watch), return_when=asyncio.FIRST_COMPLETED)
    watch.cancel()
    if not asking.done():
        asking.cancel()
        await asyncio.wait((asking,))


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Delivered(Response):
    """A response whose end is told, however it comes."""

    def __init__(self, reply: Response, over: Callable[[], None]) -> None:
        super().__init__(bytes(reply.body), reply.status_code, dict(reply.headers))
        self._over = over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._over()
