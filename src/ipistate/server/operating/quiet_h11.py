"""h11 without a traceback for each request that turns out to be malformed."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import h11

from uvicorn.protocols.http.h11_impl import H11Protocol


if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle


class QuietH11(H11Protocol):
    """uvicorn's protocol, in which a refusal and the application's reply cannot meet.

    The head of a request starts the application; what follows may still be refused.
    """

    def send_400_response(self, msg: str) -> None:
        """Refuse, unless a reply has begun; whatever the application says is dropped."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # before the first
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # it cannot be said any more, or not with a body
            self.transport.close()
