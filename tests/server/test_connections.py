"""Slow, endless and dying clients on real connections: none of them holds anything."""

from __future__ import annotations

import asyncio
import json
import logging

from collections.abc import Callable
from errno import ECONNRESET, EMFILE

import pytest

from tests.server.engines import (
    ENGINES,
    Caller,
    Engine,
    Served,
    control,
    request,
    serve,
    until,
)

from ipistate.server.operating.connections import AcceptErrors


WORLD = {"patients": {"P-7742": {"name": "R. Osei", "chart_notes": "Stable."}}}
SEED = request("/ng-rollout/ipi-7/seed_session", {"environment": WORLD})
PATH = "/ng-rollout/ipi-7/update_patient_chart"
UPDATE = request(PATH, {"patient_id": "P-7742", "notes": "Gone."})
READ = request("/ng-rollout/ipi-7/get_patient_record", {"patient_id": "P-7742"})
HEAD, BODY = UPDATE[: UPDATE.index(b"\r\n\r\n") + 4], UPDATE[-10:]
LIMITS = {"header_seconds": 10.0, "body_seconds": 40.0}
TURNS = 50

engines = pytest.mark.parametrize("engine", ENGINES, ids="-".join)


async def turns() -> None:
    """Let the loop turn, so that what was sent is received."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


@engines
@pytest.mark.parametrize(
    ("sent", "limit", "answer"),
    [
        (b"", 10.0, b""),
        (HEAD[:30], 10.0, b""),
        (HEAD[:-2], 10.0, b""),
        (HEAD, 40.0, b"HTTP/1.1 408 "),
        (UPDATE[:-1], 40.0, b"HTTP/1.1 408 "),
        (HEAD.replace(PATH.encode(), b"/a/b"), None, b"HTTP/1.1 404 "),
    ],
    ids=["nothing", "begun", "unended", "head", "body", "unknown"],
)
def test_b12_whoever_is_too_slow_is_given_up(
    engine: Engine, sent: bytes, limit: float | None, answer: bytes
) -> None:
    """B12: heads and bodies have a time, which more bytes do not prolong."""

    async def scenario(served: Served) -> None:
        caller = await served.connect()
        caller.send(sent)
        await turns()
        if limit is not None:
            served.wait(0)
            served.wait(limit - 2)
            assert not served.connections[0].transport.is_closing()
            served.wait(2)
        assert answer == (await caller.reply())[: len(answer)]
        await served.emptied()

    serve(engine, scenario, **LIMITS)


@engines
@pytest.mark.parametrize("part", ["head", "body"])
def test_b12_a_byte_now_and_then_is_no_progress(engine: Engine, part: str) -> None:
    """B12: the time counts from the beginning of the part."""

    async def scenario(served: Served) -> None:
        caller = await served.connect()
        whole, limit = (HEAD, 10) if part == "head" else (UPDATE[len(HEAD) :], 40)
        if part == "body":
            caller.send(HEAD)
        for number in range(limit + 2):
            if caller.writer.transport.is_closing():
                break
            caller.send(whole[number : number + 1])
            await turns()
            served.wait(1)
        assert served.now <= 1_000 + limit + 2
        await served.emptied()

    serve(engine, scenario, **LIMITS)


@engines
def test_b12_the_time_begins_again_with_each_request(engine: Engine) -> None:
    """B12: a connection lives as long as its requests come in time."""

    async def scenario(served: Served) -> None:
        caller = await served.connect()
        call = request("/aggregate_metrics", {"verify_responses": []}, close=False)
        for _ in range(4):
            caller.send(call[:20])
            await turns()
            served.wait(8)
            caller.send(call[20:-1])
            await turns()
            served.wait(30)
            caller.send(call[-1:])
            assert b"200 OK" in await caller.reader.readuntil(b"\r\n\r\n")
            await caller.reader.readuntil(b"[]}")
            served.wait(100)
        assert 1 == len(served.connections)

    serve(engine, scenario, **LIMITS, keep_alive_seconds=1_000)


@engines
def test_b12_an_idle_connection_is_closed_by_its_own_limit(engine: Engine) -> None:
    """B12: what follows a reply is the time for idle connections, not for heads."""

    async def scenario(served: Served) -> None:
        caller = await served.connect()
        caller.send(request("/no_such_tool", {}, close=False))
        await caller.reader.readuntil(b"}")
        served.wait(1_000)
        served.wait(1_000)
        assert 1 == len(served.connections)
        timer = served.connections[0].timeout_keep_alive_task
        assert timer is not None
        left = timer.when() - asyncio.get_running_loop().time()
        # The loops' clocks count whole milliseconds, as floats.
        assert 6 < round(left, 3) <= 7

    serve(engine, scenario, **LIMITS, keep_alive_seconds=7)


@engines
def test_who_does_not_take_a_reply_is_given_up(engine: Engine) -> None:
    """A reply that nobody reads is not kept for ever; one that is read, slowly, is."""

    async def scenario(served: Served) -> None:
        notes = "x" * 20_000_000
        world = {"patients": {"P-7742": {"chart_notes": notes}}}
        seed = request("/ng-rollout/ipi-7/seed_session", {"environment": world})
        assert b"200 OK" in await served.call(seed)
        reading, asleep = await served.connect(), await served.connect()
        for caller in (reading, asleep):
            caller.send(READ)
        await until(lambda: all(one.flow.write_paused for one in served.connections))
        taken = 0
        for _ in range(4):
            served.wait(30)
            taken += len(await reading.reader.readexactly(3_000_000))
        await until(lambda: len(served.connections) <= 1)
        taken += len(await reading.reply())
        assert taken > len(notes)

    serve(engine, scenario, **LIMITS)


@engines
@pytest.mark.parametrize(
    "start",
    [
        b"GET /health HTTP/1.1\r\nX: ",
        b"GET /health HTTP/1.1\r\n",
        b"GET /",
        b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: ",
        b"POST /a/b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: ",
    ],
    ids=["field", "fields", "target", "trailer", "trailer for nobody"],
)
def test_b7_what_has_no_end_is_refused(engine: Engine, start: bytes) -> None:
    """B7: a head and trailers may be so long, and the connection ends."""
    line = b"a: b\r\n" if start.endswith(b"1.1\r\n") else b"aaaaaa"

    async def scenario(served: Served) -> None:
        caller = await served.connect()
        caller.send(start)
        sent, reply = 0, asyncio.ensure_future(caller.reply())
        while not reply.done() and sent < 4_000_000:
            caller.send(line * 100)
            sent += 600
            await asyncio.sleep(0)
        assert sent < 1_500_000
        await served.emptied()

    serve(engine, scenario, max_header_bytes=2_000)


@engines
def test_a_body_in_a_thousand_chunks_is_no_head(engine: Engine) -> None:
    """The bound counts what has no meaning yet, not the framing of chunks."""
    body = json.dumps({"environment": {**WORLD, "x": "y" * 4_000}}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    head = request("/ng-rollout/ipi-7/seed_session").replace(
        b"Content-Length: 0", b"Transfer-Encoding: chunked"
    )

    async def scenario(served: Served) -> None:
        caller = await served.connect()
        caller.send(head)
        for at in range(0, len(chunks), 50):
            caller.send(chunks[at : at + 50])
            await asyncio.sleep(0)
        caller.send(b"0\r\n\r\n")
        assert b"200 OK" in await caller.reply()

    serve(engine, scenario, max_header_bytes=2_000)


@engines
@pytest.mark.parametrize("path", ["/a/b", "/get_patient_record", "/health"])
@pytest.mark.parametrize("rest", [b"zz\r\n", b"1\r\nxy", b"-1\r\n\r\n"])
def test_a_body_that_turns_out_to_be_malformed(
    engine: Engine, path: str, rest: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """One answer, the connection's end, and no traceback in the log."""
    head = request(path).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")

    async def scenario(served: Served) -> None:
        for pieces in ([head + rest], [head, rest]):
            caller = await served.connect()
            for piece in pieces:
                caller.send(piece)
                await turns()
            reply = await caller.reply()
            assert 1 == reply.count(b"HTTP/1.1 4")
            await served.emptied()

    serve(engine, scenario)
    assert not [record for record in caplog.records if record.exc_info]


@engines
def test_a_long_head_within_the_bound_is_served(engine: Engine) -> None:
    """In one piece or in many, with a body or without."""
    field = "X: " + "x" * 1_500

    async def scenario(served: Served) -> None:
        for path, document, method in (
            ("/aggregate_metrics", {"verify_responses": []}, "POST"),
            ("/health", None, "GET"),
        ):
            whole = request(path, document, field, method=method)
            for size in (len(whole), 100):
                caller = await served.connect()
                for at in range(0, len(whole), size):
                    caller.send(whole[at : at + size])
                    await asyncio.sleep(0)
                assert b"200 OK" in await caller.reply()

    serve(engine, scenario, max_header_bytes=2_000)


@engines
@pytest.mark.parametrize("closed", [False, True])
def test_a_client_that_dies_at_any_byte_changes_nothing(
    engine: Engine, closed: bool
) -> None:
    """However much of a request has come: no effect, nothing held, a prepare at once."""

    async def scenario(served: Served) -> None:
        assert b"200 OK" in await served.call(SEED)
        before = await served.call(READ)
        if closed:
            assert b"prepared" in await served.call(control("prepare"))
        dying: list[Caller] = []
        for cut in range(0, len(UPDATE) + closed, 3 if closed else 1):
            caller = await served.connect()
            caller.send(UPDATE[:cut])
            dying.append(caller)
        await turns()
        assert 0 == served.inflight
        for number, caller in enumerate(dying):
            caller.hang_up() if number % 2 else caller.writer.close()
        await served.emptied()
        if closed:
            assert b'"idle"' in await served.call(control("resume"))
        reply = await served.call(control("prepare", checkpoint_id="c-2"))
        assert b'"prepared"' in reply
        await served.call(control("resume", checkpoint_id="c-2"))
        assert _body(before) == _body(await served.call(READ))

    serve(engine, scenario)


def _body(reply: bytes) -> bytes:
    return reply.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("repeated", [1, 5_000])
def test_b8_missing_descriptors_are_said_once_a_minute(
    caplog: pytest.LogCaptureFixture, repeated: int
) -> None:
    """B8: however often asyncio cannot accept; other errors are reported as they are."""
    now = [0.0]
    handler = AcceptErrors(lambda: now[0])
    loop = asyncio.new_event_loop()
    full = {"message": "m", "exception": OSError(EMFILE, "Too many open files")}
    for _ in range(repeated):
        handler(loop, full)
    now[0] = 60.0
    handler(loop, full)
    handler(loop, {"message": "n", "exception": OSError(ECONNRESET, "reset")})
    handler(loop, {"message": "o"})
    loop.close()

    assert [
        "no connection can be accepted: Too many open files",
        "no connection can be accepted: Too many open files",
        "n",
        "o",
    ] == [record.getMessage() for record in caplog.records]


def test_what_is_given_up_is_logged_with_its_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """At the level of information: it is the client's fault and not the server's."""

    async def scenario(served: Served) -> None:
        caller = await served.connect()
        served.wait(0)
        served.wait(10)
        await caller.reply()

    with caplog.at_level(logging.INFO, logger="ipistate"):
        serve(("asyncio", "h11"), scenario, **LIMITS)

    said: Callable[[str], bool] = caplog.text.__contains__
    assert said("connection of '127.0.0.1' closed: no the head of a request")
