"""Control calls over HTTP: how long they make others wait."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import attrs

from client import Connection
from report import Row, duration
from servers import TOKEN, Served, served
from worlds import clinic, compact, task_row


_SESSIONS = (60, 1_000)
_IN_FLIGHT = 60
_AUTHORIZED = (f"authorization: Bearer {TOKEN}".encode(),)
_PATIENT = b'{"patient_id":"P0000"}'


def rows() -> Iterator[Row]:
    """Measure a prepare among calls, then the waits during commit and restore."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with served("ours", folder) as server:
            yield asyncio.run(_prepares(server))
        for sessions in _SESSIONS:
            where = folder / f"ckpt-{sessions}"
            with served("ours", folder, "--metrics") as server:
                commit = asyncio.run(_commit(server, where, sessions))
            with served("ours", folder, "--metrics") as server:
                restore = asyncio.run(_restore(server, where, sessions))
            for kind, found in (("commit", commit), ("restore", restore)):
                of = f"{kind}, {sessions:,} x 50 kB"
                yield _row(f"longest GET /health during {of}", found.longest, found)
                yield _row(f"garbage collections during {of}", found.collected, found)


@attrs.frozen
class _Operation:
    """A control call, and the longest of the requests that ran beside it."""

    seconds: float
    longest: float
    answered: int
    collected: float
    """Seconds of the server's garbage collections meanwhile."""


def _row(work: str, seconds: float, found: _Operation) -> Row:
    return Row(
        work=work,
        figure=duration(seconds),
        floor=f"the operation: {duration(found.seconds)}",
        ratio=seconds / found.seconds,
        budget=0.03,
        note=f"{found.answered} answered",
    )


async def _control(connection: Connection, operation: str, **members: Any) -> Any:
    body = compact({"deadline_ts": time.time() + 300, **members})
    path = f"/ng-control/v1/checkpoint/{operation}"
    return json.loads(await connection.post(path, body, _AUTHORIZED))


async def _watched(
    connection: Connection, port: int, *call: Any, **body: Any
) -> _Operation:
    probe = await Connection.open(port)
    done = False
    waits: list[float] = []

    async def ask() -> None:
        while not done:
            await probe.get("/health")
            waits.append(probe.answered - probe.sent)
            await asyncio.sleep(0.0005)

    asking = asyncio.create_task(ask())
    await asyncio.sleep(0.2)
    collected = await _collected(connection)
    waits.clear()
    start = perf_counter()
    await _control(connection, *call, **body)
    seconds = perf_counter() - start
    done = True
    await asking
    collected = await _collected(connection) - collected
    return _Operation(seconds, max(waits), len(waits), collected)


async def _collected(connection: Connection) -> float:
    text = (await connection.get("/metrics")).decode()
    lines = [line.split() for line in text.splitlines()]
    name = "ipistate_gc_pause_seconds_sum{"
    return sum(float(line[1]) for line in lines if line[0].startswith(name))


async def _commit(server: Served, directory: Path, sessions: int) -> _Operation:
    connection = await Connection.open(server.port)
    for number in range(sessions):
        connection.cookie = b""
        body = task_row(clinic(50_000, number))
        await connection.post(f"/ng-rollout/r{number}/seed_session", body)
    await _control(connection, "prepare", checkpoint_id="c1")
    where = {"checkpoint_id": "c1", "checkpoint_dir": str(directory)}
    return await _watched(connection, server.port, "commit", **where)


async def _restore(server: Served, directory: Path, sessions: int) -> _Operation:
    connection = await Connection.open(server.port)
    episodes = [{"rollout_id": f"r{n}", "attempt": 0} for n in range(sessions)]
    where = {"checkpoint_id": "c2", "checkpoint_dir": str(directory)}
    return await _watched(
        connection, server.port, "restore", **where, episode_ids=episodes
    )


async def _prepares(server: Served) -> Row:
    connections = [await Connection.open(server.port) for _ in range(_IN_FLIGHT)]
    for connection in connections:
        await connection.post("/seed_session", task_row(clinic(5_000)))
    control = await Connection.open(server.port)
    prepares = [await _prepared(connections, control, f"c{n}") for n in range(15)]
    return Row(
        work=f"prepare with {_IN_FLIGHT} calls under way",
        figure=f"{duration(median(prepares))}",
        floor="limit: 5 ms",
        ratio=median(prepares) * 1e3,
        budget=5,
        note="the ratio is milliseconds; the calls wait until the resume",
    )


async def _prepared(
    connections: list[Connection], control: Connection, name: str
) -> float:
    # A call is let in when its body is there, and a prepare does not wait for bodies.
    for connection in connections:
        head = connection.head(b"POST", "/get_patient_record", len(_PATIENT), ())
        connection.send(head)
    await asyncio.sleep(0.05)
    start = perf_counter()
    await _control(control, "prepare", checkpoint_id=name)
    seconds = control.answered - start
    for connection in connections:
        connection.send(_PATIENT)
    answers = asyncio.gather(*(one.answer() for one in connections))
    await asyncio.sleep(0.05)
    assert not answers.done()
    await _control(control, "resume", checkpoint_id=name)
    assert {status for status, _ in await answers} == {200}
    return seconds
