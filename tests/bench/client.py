"""A small HTTP/1.1 client for measuring: one kept connection, one cookie, no checks.

It costs a fraction of what the server needs for the same request.
"""

from __future__ import annotations

import asyncio

from time import perf_counter


class Connection(asyncio.Protocol):
    """One connection that sends one request at a time."""

    def __init__(self) -> None:
        self.cookie = b""
        self.sent = self.answered = 0.0
        self.calls = 0
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._received = b""

    @classmethod
    async def open(cls, port: int) -> Connection:
        """Connect to a server on this machine."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, "127.0.0.1", port)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits for an answer that none will come."""
        self._transport = None
        if self._answer is not None and not self._answer.done():
            told = exc or ConnectionResetError("the server has closed the connection")
            self._answer.set_exception(told)

    def close(self) -> None:
        """Close the connection, unless the server has done so."""
        if self._transport is not None:
            self._transport.close()

    async def post(
        self, path: str, body: bytes, headers: tuple[bytes, ...] = ()
    ) -> bytes:
        """Send a JSON body and return the answer's, whose status must be 200."""
        self.send(self.head(b"POST", path, len(body), headers) + body)
        status, answer = await self.answer()
        assert status == 200, (status, path, answer[:300])
        return answer

    async def get(self, path: str) -> bytes:
        """Ask for a path, whose status must be 200."""
        self.send(self.head(b"GET", path, 0, ()))
        status, answer = await self.answer()
        assert status == 200, (status, path, answer[:300])
        return answer

    def head(
        self, method: bytes, path: str, length: int, headers: tuple[bytes, ...]
    ) -> bytes:
        """Write a request's head."""
        lines = [
            b"%b %b HTTP/1.1" % (method, path.encode()),
            b"host: 127.0.0.1",
            b"content-type: application/json",
            b"content-length: %d" % length,
            *headers,
        ]
        if self.cookie:
            lines.append(b"cookie: " + self.cookie)
        return b"\r\n".join([*lines, b"", b""])

    def send(self, data: bytes) -> None:
        """Send a part of a request; its answer is then waited for."""
        assert self._transport is not None
        if self._answer is None:
            self._answer = asyncio.get_running_loop().create_future()
        self.calls += 1
        self.sent = perf_counter()
        self._transport.write(data)

    async def answer(self) -> tuple[int, bytes]:
        """Wait for status and body of the answer."""
        assert self._answer is not None
        return await self._answer

    def data_received(self, data: bytes) -> None:
        """Take what arrives and end the waiting when an answer is whole."""
        self._received += data
        head, gap, body = self._received.partition(b"\r\n\r\n")
        if not gap or self._answer is None:
            return
        fields = head.lower()
        length = int(fields.split(b"content-length:", 1)[1].split(b"\r", 1)[0])
        if len(body) < length:
            return
        if b"\r\nset-cookie:" in fields:
            start = fields.index(b"\r\nset-cookie:") + 13
            self.cookie = head[start:].split(b";", 1)[0].strip()
        self._received = b""
        self.answered = perf_counter()
        future, self._answer = self._answer, None
        future.set_result((int(head[9:12]), body))
