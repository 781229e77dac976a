"""Running the server: one process, one worker, one line when it is ready."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Literal, cast

import uvicorn

from ipistate.server.app import create_app
from ipistate.server.hosts import with_hosts
from ipistate.server.operating.collector import spare_the_old
from ipistate.server.operating.connections import AcceptErrors, StalledConnections
from ipistate.server.operating.logs import LogForm, ready_line
from ipistate.server.operating.quiet_h11 import QuietH11


if TYPE_CHECKING:
    import socket

    from collections.abc import Callable, Mapping
    from types import FrameType

    from starlette.types import ASGIApp

    from ipistate.server.operating.connections import Connection
    from ipistate.server.operating.settings import ServerSettings

HOST: Final = "127.0.0.1"
PORT: Final = 8000

SHUTDOWN_SECONDS: Final = 5
"""How long a stopping server waits for requests that are still open."""


class TooManyWorkersError(RuntimeError):
    """More than one worker: each would hold its own sessions and lose the others'."""


def refuse_workers(environ: Mapping[str, str], workers: int = 1) -> None:
    """Refuse to serve with several workers.

    Raises:
        TooManyWorkersError: ``workers`` or ``WEB_CONCURRENCY`` asks for more than one.
    """
    concurrency = environ.get("WEB_CONCURRENCY", "").strip() or "1"
    if workers != 1:
        raise TooManyWorkersError(f"{workers} workers: sessions live in one process")
    if concurrency != "1":
        raise TooManyWorkersError(
            f"WEB_CONCURRENCY={concurrency}: sessions live in one process, unset it"
        )


def engine_of(config: uvicorn.Config) -> dict[str, str]:
    """Name the event loop that runs and the HTTP parser that is configured.

    The extra ``server`` brings fast ones where they exist; uvicorn takes what is there.
    """
    loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
    parser = "h11" if config.http_protocol_class is QuietH11 else "httptools"
    return {"event_loop": loop, "http_parser": parser}


def parser_of(http: Literal["auto", "h11", "httptools"]) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol for a parser, whose memory for a head is bounded."""
    if http == "h11" or (http == "auto" and find_spec("httptools") is None):
        return QuietH11
    from ipistate.server.operating.bounded_httptools import (  # noqa: PLC0415 - an extra's module
        BoundedHttpTools,
    )

    return BoundedHttpTools


class IpistateServer(uvicorn.Server):
    """uvicorn's server, which says when it is ready and gives up stalled connections."""

    def __init__(
        self,
        config: uvicorn.Config,
        stalled: StalledConnections,
        form: LogForm = LogForm.TEXT,
        started: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._stalled = stalled
        self._form = form
        self._started = started

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # A second one ends the waiting. It is not raised again after the end, as the
        # first one is: there it would interrupt the interpreter's own ending.
        if self.should_exit:
            self.force_exit = True
            # That open requests break off is what was asked for, and no error.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        else:
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Look at the connections, now and then."""
        self._stalled.look(self.open_connections, time.monotonic())
        return await super().on_tick(counter)

    @property
    def open_connections(self) -> set[Connection]:
        """The connections; nothing but the two parsers is configured."""
        return cast("set[Connection]", self.server_state.connections)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say where."""
        await super().startup(sockets)
        asyncio.get_running_loop().set_exception_handler(AcceptErrors(time.monotonic))
        listeners = [one for server in self.servers for one in server.sockets]
        for listener in listeners:
            host, port = listener.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            address = f"http://{shown}:{port}"
            line = ready_line(self._form, address, **engine_of(self.config))
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
        if listeners:
            self._started()


def config_of(  # noqa: PLR0913 - one parameter for each choice
    settings: ServerSettings,
    host: str = HOST,
    port: int = PORT,
    *,
    loop: Literal["auto", "asyncio", "uvloop"] = "auto",
    http: Literal["auto", "h11", "httptools"] = "auto",
    app: ASGIApp | None = None,
) -> uvicorn.Config:
    """Return how uvicorn serves an application with these settings.

    Without an application it is that of a resources server.
    """
    return uvicorn.Config(
        app or create_app(with_hosts(settings, host)),
        host=host,
        port=port,
        workers=1,
        loop=loop,
        http=parser_of(http),
        ws="none",
        h11_max_incomplete_event_size=settings.max_header_bytes,
        timeout_keep_alive=settings.keep_alive_seconds,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )


def run(  # noqa: PLR0913 - one parameter for each choice
    settings: ServerSettings,
    host: str = HOST,
    port: int = PORT,
    *,
    workers: int = 1,
    loop: Literal["auto", "asyncio", "uvloop"] = "auto",
    http: Literal["auto", "h11", "httptools"] = "auto",
    log_form: LogForm = LogForm.TEXT,
    started: Callable[[], None] = lambda: None,
    app: ASGIApp | None = None,
) -> None:
    """Serve until a signal ends the process; port 0 takes a free one.

    The line ``ipistate: serving on http://host:port`` on stderr says that connections
    are accepted; with ``log_form`` JSON it is a JSON object with the same message.
    Nothing is written to stdout. Logging is left as the process has configured it.
    ``started`` is called after that line. ``loop`` and ``http`` are the event loop and
    the HTTP parser; by default uvloop and httptools if they are installed. ``app`` is
    what is served in place of a resources server.

    Raises:
        TooManyWorkersError: More than one worker was asked for.
        ValueError: A hardened server listens everywhere, and no host is allowed.
    """
    refuse_workers(os.environ, workers)
    config = config_of(settings, host, port, loop=loop, http=http, app=app)
    spare_the_old()
    IpistateServer(config, StalledConnections(settings), log_form, started).run()
