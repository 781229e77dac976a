"""Requests over HTTP, beside an echo on the same event loop, parser and core."""

from __future__ import annotations

import asyncio
import gc
import json
import tempfile

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import TypeAlias

import attrs

from client import Connection
from measure import Timed, compare
from report import Row, row
from servers import TOKEN, Served, apart, served
from worlds import clinic, compact, task_row


Request: TypeAlias = Callable[[Connection], Awaitable[object]]

_SECONDS = 0.7
_ROUNDS = 7
_INJECTION = (
    "goal",
    "verification_type",
    "attack_strategy",
    "attack_difficulty",
    "vector",
    "injection_text",
    "category",
)
_ROW = task_row(clinic(50_000))
_CALLS = (
    ("/get_patient_record", b'{"patient_id":"P0000"}'),
    ("/update_patient_chart", b'{"patient_id":"P0001","notes":"Seen today."}'),
    ("/send_message", b'{"recipient":"Dr. Ines","subject":"Hello","body":"Fine."}'),
)
_CALLS_OF_A_SESSION = 300
"""Then it is seeded again, so that no world grows without end."""
CONCURRENCY = (1, 16, 64)
_TOKEN = (b"authorization: Bearer " + TOKEN.encode(),)
_FORKS = 100


def rows() -> Iterator[Row]:
    """Measure tool calls, seeds and verifications beside the echo, then the rest."""
    with _both("echo") as both:
        for work, request, floors in (
            ("tool mix", _tool_mix, (0.95, 1.0, 1.0)),
            ("reading", _reading, (1.0, 1.3, 1.3)),
        ):
            for concurrency, budget in zip(CONCURRENCY, floors, strict=True):
                found = asyncio.run(_rates(both, concurrency, request))
                yield _row(f"HTTP {work}, {concurrency} at a time", found, budget)
        works: tuple[
            tuple[str, Callable[[Connection], Awaitable[object]], float], ...
        ] = (
            ("seed 50 kB, known row", _seed_again, 0.9),
            ("seed 50 kB, other rollout of a known row", _known_seed(), 0.5),
            ("seed 50 kB, new row", _new_seed(), 0.5),
            ("verify, row of 50 kB", _verify(), 0.5),
        )
        for name, ask, budget in works:
            found = asyncio.run(_rates(both, 16, ask))
            yield _row(f"HTTP {name}, 16 at a time", found, budget)
    yield _cookieless()
    yield from _forks()


def plain_rows() -> Iterator[Row]:
    """Measure the same server on asyncio and h11 beside uvloop and httptools."""
    with _both("plain") as both:
        for work, request in (("tool mix", _tool_mix), ("reading", _reading)):
            for concurrency in CONCURRENCY:
                fast, plain = asyncio.run(_rates(both, concurrency, request))
                name = f"HTTP {work} on asyncio and h11, {concurrency} at a time"
                yield _row(name, (plain, fast), 0.0, "uvloop and httptools")


@contextmanager
def _both(rival: str) -> Iterator[list[Served]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(apart())
        ours = stack.enter_context(served("ours", folder))
        sizes = asyncio.run(_sizes(ours.port)) if rival == "echo" else []
        yield [ours, stack.enter_context(served(rival, folder, *sizes))]


async def _sizes(port: int) -> list[str]:
    connection, sizes = await _opened(port), list[str]()
    for path, body in (*_CALLS, ("/seed_session", _ROW), ("/verify", _verify_body())):
        sizes.append(f"{path}={len(await connection.post(path, body))}")
    connection.close()
    return sizes


async def _reading(connection: Connection) -> None:
    await connection.post(*_CALLS[0])


async def _tool_mix(connection: Connection) -> None:
    await connection.post(*_CALLS[connection.calls % len(_CALLS)])


async def _seed_again(connection: Connection) -> None:
    await connection.post("/seed_session", _ROW)


def _cookieless() -> Row:
    few, many = 10, 10_000
    with ExitStack() as stack, asyncio.Runner() as runner:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(apart())

        def live(sessions: int) -> Timed:
            server = stack.enter_context(served("ours", folder))
            connection = runner.run(_rollouts(server.port, sessions))
            return lambda: runner.run(_mean_wait(connection, _without_cookie))

        found = compare(live(many), live(few))
    work = f"HTTP request without a cookie, {many:,} sessions"
    return row(work, f"the same, {few} sessions", found, 1.2)


async def _rollouts(port: int, sessions: int) -> Connection:
    connection = await Connection.open(port)
    for number in range(sessions):
        connection.cookie = b""
        await connection.post(f"/ng-rollout/ipi-{number}/seed_session", _ROW)
    return connection


async def _without_cookie(connection: Connection) -> None:
    connection.cookie = b""
    await connection.post(f"/ng-rollout/ipi-3{_CALLS[0][0]}", _CALLS[0][1])


def _new_seed() -> Request:
    body, numbers = task_row(clinic(50_000)), count()

    async def seed(connection: Connection) -> None:
        new = b"Dr. %08d" % next(numbers)
        await connection.post("/seed_session", body.replace(b"Dr. Ines", new))

    return seed


def _known_seed() -> Request:
    body, numbers = task_row(clinic(50_000))[:-1], count()

    async def seed(connection: Connection) -> None:
        await connection.post("/seed_session", b'%b,"n":%d}' % (body, next(numbers)))

    return seed


def _verify() -> Request:
    body = _verify_body()

    async def verify(connection: Connection) -> None:
        await connection.post("/verify", body)

    return verify


def _verify_body() -> bytes:
    call = {
        "type": "function_call",
        "name": "get_patient_record",
        "arguments": '{"patient_id": "P0000"}',
        "call_id": "c",
    }
    output = {"type": "function_call_output", "call_id": "c", "output": "x" * 400}
    row = {
        **json.loads(task_row(clinic(50_000))),
        "responses_create_params": {"input": [{"role": "user", "content": "Hello"}]},
        "response": {"output": [call, output] * 10},
        "injection": dict.fromkeys(_INJECTION, "text")
        | {"target_tool": "send_message", "target_args": {"to": "x"}},
    }
    return compact(row)


@attrs.frozen
class _Load:
    """What one server did in one round."""

    rate: float
    work: float
    """Seconds of the server's processor for each request."""
    waits: tuple[float, ...]


async def _rates(
    both: list[Served], concurrency: int, request: Request
) -> tuple[list[_Load], list[_Load]]:
    groups = [[await _opened(one.port) for _ in range(concurrency)] for one in both]
    ours: list[_Load] = []
    floor: list[_Load] = []
    for index in range(_ROUNDS + 1):
        for results, server, group in zip((ours, floor), both, groups, strict=True):
            load = await _loaded(server, group, request)
            if index:
                results.append(load)
    for connection in (*groups[0], *groups[1]):
        connection.close()
    return ours, floor


async def _opened(port: int, size: int = 50_000) -> Connection:
    connection = await Connection.open(port)
    await connection.post("/seed_session", task_row(clinic(size)))
    return connection


async def _loaded(server: Served, group: list[Connection], request: Request) -> _Load:
    waits: list[float] = []
    end = perf_counter() + _SECONDS

    async def work(connection: Connection) -> None:
        while perf_counter() < end:
            if connection.calls % _CALLS_OF_A_SESSION == 0:
                await connection.post("/seed_session", _ROW)
            await request(connection)
            waits.append(connection.answered - connection.sent)

    gc.collect()
    gc.disable()
    start, worked = perf_counter(), server.worked()
    await asyncio.gather(*map(work, group))
    seconds, worked = perf_counter() - start, server.worked() - worked
    gc.enable()
    return _Load(len(waits) / seconds, worked / len(waits), tuple(waits))


def _forks() -> Iterator[Row]:
    # Each size has a server of its own: a large world slows down nobody else's forks.
    with ExitStack() as stack, asyncio.Runner() as runner:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def live(size: int) -> Connection:
            server = stack.enter_context(served("ours", folder, "--extension"))
            return runner.run(_opened(server.port, size))

        def timed(connection: Connection, request: Request) -> Timed:
            return lambda: runner.run(_mean_wait(connection, request))

        small = live(5_000)
        forks = timed(small, _fork)
        found = compare(forks, timed(small, _reading))
        yield row("HTTP fork of a session, 5 kB", "tool call", found, 2)
        for size in (50, 500, 5_000):
            large = live(size * 1_000)
            found = compare(timed(large, _fork), forks)
            name = f"HTTP fork of a session, {size:,} kB"
            yield row(name, "the same, 5 kB", found, 2)
            large.close()
        small.close()


async def _fork(connection: Connection) -> None:
    await connection.post("/ipistate/v1/fork", b'{"count":1}', _TOKEN)


async def _mean_wait(connection: Connection, request: Request) -> float:
    waits = 0.0
    for _ in range(_FORKS):
        await request(connection)
        waits += connection.answered - connection.sent
    return waits / _FORKS


def _row(
    name: str,
    found: tuple[list[_Load], list[_Load]],
    budget: float,
    rival: str = "echo",
) -> Row:
    ours, floor = found
    ratios = [one.rate / other.rate for one, other in zip(ours, floor, strict=True)]
    low, _, high = quantiles(ratios, n=4)
    work = median(one.work / other.work for one, other in zip(ours, floor, strict=True))
    return Row(
        work=name,
        figure=_shown(ours),
        floor=f"{rival}: {_shown(floor)}",
        ratio=median(ratios),
        budget=budget,
        at_least=True,
        spread=(low, high),
        note=f"processor time {work:.3g} x",
    )


def _shown(loads: list[_Load]) -> str:
    waits = sorted(wait for load in loads for wait in load.waits)
    rate = median(load.rate for load in loads)
    half, most = waits[len(waits) // 2] * 1e3, waits[len(waits) * 99 // 100] * 1e3
    return f"{rate:,.0f}/s, p50 {half:.3g} ms, p99 {most:.3g} ms"
