"""The network between the servers: late, out of order, and now and then it loses something."""

from __future__ import annotations

import asyncio

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs

from multidict import CIMultiDict

from deployed.virtual_loop import LIFE, Life, context_of
from ipistate.clients import HttpAnswer, HttpClient, HttpError


if TYPE_CHECKING:
    from random import Random

    from yarl import URL

    from deployed.virtual_loop import VirtualLoop

Application = Callable[..., Any]


@attrs.define(eq=False)
class Exchange:
    """A request on its way, and its answer."""

    caller: Life
    method: str
    host: str
    path: str
    body: bytes
    headers: Mapping[str, str]
    answer: asyncio.Future[HttpAnswer]
    target: Life | None = None
    left: asyncio.Event = attrs.field(factory=asyncio.Event)
    """The caller is gone."""
    is_answered: bool = False
    """The answer is on its way, and comes even if its server dies."""


@attrs.define(eq=False)
class Host:
    """A server that listens."""

    life: Life
    app: Application


class Network:
    """Carries requests between lives.

    Args:
        loop: Tells the time.
        random: Draws delays and losses.
        watch: Is told of each request that leaves (``leaves``), and of the beginning and
            the end of each answer (``answers``, ``answered``).
    """

    def __init__(
        self,
        loop: VirtualLoop,
        random: Random,
        watch: Callable[[str, Exchange, int, bytes], None],
    ) -> None:
        self._loop = loop
        self._random = random
        self._watch = watch
        self.life = Life("network")
        self.hosts: dict[str, Host] = {}
        self.open: list[Exchange] = []
        self.lost = 0.0
        """Part of the control calls whose request or answer is lost."""
        self.doubled = 0.0
        self.events = 0
        self.errors: list[BaseException] = []
        """What applications have raised."""

    def delay(self) -> float:
        """Draw how long something takes; a few take very long."""
        seconds = self._random.expovariate(1 / 0.01)
        return seconds * (100 if self._random.random() < 0.04 else 1)

    def later(self, seconds: float, work: Callable[..., None], *args: Any) -> None:
        """Let the network do something."""
        context = context_of(self.life)
        self._loop.call_later(seconds, self._happens, work, args, context=context)

    def _happens(self, work: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.events += 1
        work(*args)

    async def request(
        self,
        method: str,
        url: URL,
        body: bytes,
        headers: Mapping[str, str],
    ) -> HttpAnswer:
        """Send a request, and wait for its answer."""
        exchange = Exchange(
            LIFE.get(),
            method,
            url.host or "",
            url.raw_path,
            body,
            headers,
            self._loop.create_future(),
        )
        self._watch("leaves", exchange, 0, exchange.body)
        self.open.append(exchange)
        is_control = "/ng-control/" in exchange.path
        if not is_control:
            # It has a connection, which ends with the process at its other end.
            host = self.hosts.get(exchange.host)
            exchange.target = None if host is None else host.life
        if not (is_control and self._chance(self.lost)):
            self.later(self.delay(), self._arrive, exchange)
        if is_control and self._chance(self.doubled):
            self.later(self.delay() * 50, self._arrive, _copy(self._loop, exchange))
        try:
            return await exchange.answer
        finally:
            self._forget(exchange)
            if exchange.target is not None:
                self.later(self.delay(), _leave, exchange)

    def _forget(self, exchange: Exchange) -> None:
        with suppress(ValueError):
            self.open.remove(exchange)

    def _chance(self, part: float) -> bool:
        return bool(part) and self._random.random() < part

    def _arrive(self, exchange: Exchange) -> None:
        if not exchange.caller.is_alive:
            return
        host = self.hosts.get(exchange.host)
        other = exchange.target not in {None, None if host is None else host.life}
        if host is None or other or not host.life.is_alive:
            self.later(self.delay(), _fail, exchange, "unreachable")
            return
        exchange.target = host.life
        served = self._served(host.app, exchange)
        task = self._loop.create_task(served, context=context_of(host.life))
        task.add_done_callback(self._ended, context=context_of(self.life))

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.errors.append(error)

    async def _served(self, app: Application, exchange: Exchange) -> None:
        given = [{"type": "http.request", "body": exchange.body}]
        status, headers, parts = 0, CIMultiDict[str](), list[bytes]()

        async def receive() -> dict[str, Any]:
            if given:
                return given.pop()
            await exchange.left.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                pairs: Sequence[tuple[bytes, bytes]] = message.get("headers", ())
                headers.extend((n.decode(), v.decode("latin-1")) for n, v in pairs)
                self._watch("answers", exchange, status, b"")
            else:
                parts.append(message.get("body", b""))
                if not message.get("more_body"):
                    self._answer(exchange, status, headers, b"".join(parts))

        await app(_scope(exchange), receive, send)

    def _answer(
        self,
        exchange: Exchange,
        status: int,
        headers: CIMultiDict[str],
        content: bytes,
    ) -> None:
        exchange.is_answered = True
        self._watch("answered", exchange, status, content)
        cookies = dict(map(_cookie, headers.getall("set-cookie", ())))
        answer = HttpAnswer(status, headers, content, cookies)
        if "/ng-control/" in exchange.path and self._chance(self.lost):
            return
        # Often a checkpoint is taken between a verdict and the one who waits for it.
        slow = 50 if exchange.path.endswith("/verify") else 1
        self.later(self.delay() * slow, _set, exchange, answer)

    def died(self, life: Life) -> None:
        """Break what a process was in the middle of."""
        for exchange in [*self.open]:
            if exchange.target is life and not exchange.is_answered:
                self.later(self.delay(), _fail, exchange, "broken")
            if exchange.caller is life:
                self._forget(exchange)
                self.later(self.delay(), _leave, exchange)


class SimulatedClient(HttpClient):
    """A client whose requests go through the simulated network."""

    def __init__(self, network: Network, **options: Any) -> None:
        super().__init__(**options)
        self._network = network

    async def _sent(
        self,
        method: str,
        url: URL,
        body: bytes | None,
        bounds: Any,
        headers: Mapping[str, str],
    ) -> HttpAnswer:
        del bounds
        return await self._network.request(method, url, body or b"", headers)


def _copy(loop: VirtualLoop, exchange: Exchange) -> Exchange:
    # Nobody waits for the answer of what was sent twice.
    return attrs.evolve(exchange, answer=loop.create_future(), left=asyncio.Event())


def _set(exchange: Exchange, answer: HttpAnswer) -> None:
    if not exchange.answer.done():
        exchange.answer.set_result(answer)


def _fail(exchange: Exchange, code: str) -> None:
    if not exchange.answer.done():
        exchange.answer.set_exception(HttpError(code, f"{exchange.host}: {code}"))
        # A caller that died does not ask for it any more.
        exchange.answer.exception()


def _leave(exchange: Exchange) -> None:
    exchange.left.set()


def _cookie(header: str) -> tuple[str, str]:
    name, _, value = header.partition(";")[0].partition("=")
    return name.strip(), value.strip()


def _scope(exchange: Exchange) -> dict[str, Any]:
    headers = [(n.lower().encode(), v.encode()) for n, v in exchange.headers.items()]
    headers.append((b"host", exchange.host.encode()))
    headers.append((b"content-length", str(len(exchange.body)).encode()))
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": exchange.method,
        "scheme": "http",
        "path": exchange.path,
        "raw_path": exchange.path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "server": (exchange.host, 80),
        "client": (exchange.caller.name, 1),
        "state": {"caller": exchange.caller},
    }
