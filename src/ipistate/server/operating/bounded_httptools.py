"""httptools with the bound that h11 has on what came and has no meaning yet.

This is a module of its own because httptools does not exist everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


if TYPE_CHECKING:
    import asyncio

    from uvicorn import Config
    from uvicorn.server import ServerState


class BoundedHttpTools(HttpToolsProtocol):
    """uvicorn's protocol, which otherwise keeps a head and trailers of any size.

    A head that is not complete after ``h11_max_incomplete_event_size`` bytes is
    answered 400. One that comes in one piece may be as long as that piece.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limit = config.h11_max_incomplete_event_size
        self._unused = 0

    def data_received(self, data: bytes) -> None:
        """Parse what came, and refuse to collect more and more of it."""
        self._unused += len(data)
        super().data_received(data)
        if self._limit is not None and self._unused > self._limit:
            self._unused = 0
            if not self.transport.is_closing():
                self.send_400_response("The head of the request is too long.")

    def on_headers_complete(self) -> None:
        """Note that the head has become a request."""
        self._unused = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Note that the application gets what came; its size has another limit."""
        self._unused = 0
        super().on_body(body)
