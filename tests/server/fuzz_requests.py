"""Raw requests against a real server: ``python tests/server/fuzz_requests.py``.

With ``--requests 50000`` it takes some minutes. Exit status 0 if nothing was answered
5xx, no connection hung, nothing is in flight afterwards and a prepare is ready at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time

from collections import Counter
from pathlib import Path
from typing import Any

import attrs


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.server.raw_requests import TOKEN, RawRequest, raw_request


PARSERS = {"h11": "asyncio", "httptools": "uvloop"}
"""Each HTTP parser with the event loop that it is tried on."""
AT_A_TIME = 64
UPLOADS = 50
"""Unfinished uploads that are open while a prepare is made."""
HUNG = 30.0
"""Seconds after which a connection counts as hung; the server's limits are one."""
STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")
SERVER = """
import sys
from starlette.datastructures import Secret
from ipistate.server import ServerSettings, run
run(
    ServerSettings(
        checkpoint_token=Secret("a-token"), extension=True, max_body_bytes=65_536,
        max_metrics_bytes=65_536, header_seconds=1.0, body_seconds=1.0,
        keep_alive_seconds=1, max_sessions=200, idle_seconds=5.0,
    ),
    port=0, http=sys.argv[1], loop=sys.argv[2],
)
"""


@attrs.frozen(kw_only=True)
class Outcome:
    """What came of many requests."""

    answers: Counter[str]
    """How often each status was answered; ``none`` for connections without one."""
    failures: tuple[str, ...]
    """Requests that were answered 5xx, or not at all and not closed either."""
    inflight: int
    prepare_ms: float
    prepared: dict[str, Any]
    """The prepare's reply, with unfinished uploads open."""
    faults: int
    """Tracebacks in the server's log."""

    @property
    def is_good(self) -> bool:
        """Nothing failed and nothing is held."""
        ready = self.prepared.get("phase") == "prepared"
        return ready and not (self.failures or self.inflight or self.faults)


def fuzz(parser: str, requests: int, seed: int) -> Outcome:
    """Send requests to a server of its own."""
    command = [sys.executable, "-c", SERVER, parser, PARSERS[parser]]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with (
            log.open("wb") as errors,
            subprocess.Popen(command, stderr=errors) as server,
        ):
            try:
                while b"\n" not in log.read_bytes():
                    if server.poll() is not None:
                        raise RuntimeError(log.read_text())
                port = int(log.read_text().split("\n")[0].rpartition(":")[2])
                answers, failures = asyncio.run(_all(port, requests, seed))
                inflight, ms, prepared = asyncio.run(_afterwards(port))
            finally:
                server.terminate()
        faults = log.read_text().count("Traceback")
    return Outcome(
        answers=answers,
        failures=failures,
        inflight=inflight,
        prepare_ms=ms,
        prepared=prepared,
        faults=faults,
    )


async def _all(
    port: int, requests: int, seed: int
) -> tuple[Counter[str], tuple[str, ...]]:
    answers: Counter[str] = Counter()
    failures: list[str] = []
    numbers = iter(range(requests))

    async def send_some() -> None:
        for number in numbers:
            request = raw_request(seed, number)
            try:
                reply = await asyncio.wait_for(_exchange(port, request), HUNG)
            except TimeoutError:
                failures.append(f"{number}: hung")
                continue
            found = [one.decode() for one in STATUS.findall(reply)]
            answers.update(found or ["none" if request.stays else "left"])
            if any(one.startswith("5") for one in found):
                failures.append(f"{number}: {reply[:300]!r}")

    await asyncio.gather(*(send_some() for _ in range(AT_A_TIME)))
    return answers, tuple(failures)


async def _exchange(port: int, request: RawRequest) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in request.pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if not request.stays:
            return b""
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


async def _afterwards(port: int) -> tuple[int, float, dict[str, Any]]:
    head = b"POST /verify HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"
    uploads = [await asyncio.open_connection("127.0.0.1", port) for _ in range(UPLOADS)]
    for _, writer in uploads:
        writer.write(head)
        await writer.drain()
    status = await _control(port, "GET", "status")
    began = time.perf_counter()
    body = {"checkpoint_id": "after", "deadline_ts": time.time()}
    prepared = await _control(port, "POST", "prepare", body)
    ms = 1_000 * (time.perf_counter() - began)
    for _, writer in uploads:
        writer.transport.abort()
    inflight: int = status["report"]["counts"]["inflight"]
    return inflight, ms, prepared


async def _control(port: int, method: str, name: str, body: Any = None) -> Any:
    content = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{method} /ng-control/v1/checkpoint/{name} HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    request = RawRequest(pieces=(head.encode() + content,), stays=True)
    reply = await _exchange(port, request)
    return json.loads(reply.partition(b"\r\n\r\n")[2])


def main(arguments: list[str] | None = None) -> int:
    """Fuzz with one parser or with each, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=5_000, help="for each parser")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parser", choices=[*PARSERS], action="append")
    options = parser.parse_args(arguments)
    good = True
    for one in options.parser or PARSERS:
        began = time.perf_counter()
        outcome = fuzz(one, options.requests, options.seed)
        good = good and outcome.is_good
        answers = ", ".join(f"{n:,} x {s}" for s, n in sorted(outcome.answers.items()))
        sys.stdout.write(
            f"{one} on {PARSERS[one]}: {options.requests:,} requests in "
            f"{time.perf_counter() - began:.0f} s: {answers}\n"
            f"  failures {len(outcome.failures)}, tracebacks {outcome.faults}, "
            f"in flight {outcome.inflight}, prepare beside {UPLOADS} unfinished "
            f"uploads {outcome.prepared.get('phase')} in {outcome.prepare_ms:.1f} ms\n"
        )
        sys.stdout.writelines(f"  {failure}\n" for failure in outcome.failures[:20])
        sys.stdout.flush()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
