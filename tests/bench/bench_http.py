"""Requests over HTTP, beside an echo behind the same cookie layer and settings."""

from __future__ import annotations

import asyncio
import gc
import json
import tempfile

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import TypeAlias

import attrs

from client import Connection
from measure import Timed, compare
from report import Row, row
from servers import TOKEN, Served, served
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
_PATIENT = b'{"patient_id":"P0000"}'
_TOKEN = (b"authorization: Bearer " + TOKEN.encode(),)
_FORKS = 100


def rows() -> Iterator[Row]:
    """Measure tool calls, seeds and verifications, then forks."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        both = [stack.enter_context(served(kind, folder)) for kind in ("ours", "echo")]
        for concurrency in (1, 16, 64):
            found = asyncio.run(_rates(both, concurrency, _tool_call))
            yield _row(f"HTTP tool call, {concurrency} at a time", found, 0.8)
        for name, request in (
            ("seed 50 kB, new row", _new_seed()),
            ("seed 50 kB, other rollout of a known row", _known_seed()),
            ("verify, row of 50 kB", _verify()),
        ):
            found = asyncio.run(_rates(both, 16, request))
            yield _row(f"HTTP {name}, 16 at a time", found, 0.5)
    yield from _forks()


async def _tool_call(connection: Connection) -> None:
    await connection.post("/get_patient_record", _PATIENT)


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
    body = compact(row)

    async def verify(connection: Connection) -> None:
        await connection.post("/verify", body)

    return verify


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
        found = compare(forks, timed(small, _tool_call))
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


def _row(name: str, found: tuple[list[_Load], list[_Load]], budget: float) -> Row:
    ours, floor = found
    ratios = [one.rate / other.rate for one, other in zip(ours, floor, strict=True)]
    low, _, high = quantiles(ratios, n=4)
    work = median(one.work / other.work for one, other in zip(ours, floor, strict=True))
    return Row(
        work=name,
        figure=_shown(ours),
        floor=f"echo: {_shown(floor)}",
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
