"""Bodies that are not complete: never in flight, bounded in their sum, gone at once."""

from __future__ import annotations

import asyncio
import json

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from ipistate.server import ServerSettings


if TYPE_CHECKING:
    from tests.server.conftest import Client, Wire


pytestmark = pytest.mark.anyio

NAME = "IPIResourcesServer___ipi"
TOKEN = {"authorization": "Bearer a-token"}
KNOWN = [
    *("/seed_session", "/ng-rollout/ipi-7/seed_session", "/verify", "/close_session"),
    *("/aggregate_metrics", "/get_patient_record", "/no_such_tool"),
    *("/ng-rollout/ipi-7/get_patient_record", "/ipistate/v1/import"),
    *("/ipistate/v1/fork", "/ipistate/v1/call/get_patient_record"),
]
UNKNOWN = ["/a/b", "/ipistate/v1/nothing", "/ng-rollout/ipi-7/a/b", "//x"]
SMALL = {"max_body_bytes": 600, "max_metrics_bytes": 600, "max_uploads_bytes": 1_000}

Connect = Callable[..., Awaitable["Client"]]
Settled = Callable[..., Awaitable[None]]


def held(client: Client) -> int:
    """Return how many bytes of bodies the server counts."""
    size: int = client.app.state.uploads.size
    return size


@pytest.mark.parametrize("sent", [None, b"", b'{"a"'])
@pytest.mark.parametrize("path", [*KNOWN, *UNKNOWN])
async def test_b4_an_unfinished_upload_holds_up_nobody(
    connect: Connect,
    wire: type[Wire],
    settled: Settled,
    path: str,
    sent: bytes | None,
) -> None:
    """B4: whatever its path, a prepare is ready at once, and so is a retire."""
    client = await connect(extension=True)
    await client.seed(key="ipi-7")
    upload = wire(client.app, path, None, headers=TOKEN)
    if sent is not None:
        upload.give(sent, more=True)
    await settled()
    prepared = (await client.control("prepare", seconds=0)).json()
    await client.control("resume")
    retired = await client.control("retire", episode_ids=[{"rollout_id": "ipi-7"}])
    upload.hang_up()
    await upload.task

    assert ("prepared", 0) == (
        prepared["phase"],
        prepared["report"]["counts"]["inflight"],
    )
    assert 200 == retired.status_code
    assert 0 == held(client)


@pytest.mark.parametrize("path", [*KNOWN, *UNKNOWN])
async def test_b4_a_restore_starts_beside_an_unfinished_upload(
    connect: Connect, wire: type[Wire], settled: Settled, tmp_path: Any, path: str
) -> None:
    """B4: a process with nothing but uploads is a fresh one."""
    first = await connect()
    await first.seed(key="ipi-7")
    await first.control("prepare")
    await first.control("commit", checkpoint_dir=str(tmp_path))
    client = await connect(extension=True)
    upload = wire(client.app, path, None, headers=TOKEN)
    upload.give(b"{", more=True)
    await settled()
    scope = [{"rollout_id": "ipi-7"}]
    reply = await client.control(
        "restore", checkpoint_dir=str(tmp_path), episode_ids=scope
    )
    upload.hang_up()
    await upload.task

    assert (200, 0) == (reply.status_code, held(client))


@pytest.mark.parametrize("path", UNKNOWN)
async def test_b4_what_no_route_serves_is_answered_without_its_body(
    connect: Connect, wire: type[Wire], path: str
) -> None:
    """B4: an unknown path is 404 before any byte has come."""
    client = await connect(extension=True)
    request = wire(client.app, path, None, headers=TOKEN)
    await request.task

    assert 404 == request.status
    assert {"inflight": 0, "sessions": 0} == await client.counts()


async def test_b4_a_body_for_no_route_is_not_kept_while_it_waits(
    connect: Connect, wire: type[Wire], settled: Settled
) -> None:
    """B4: at a closed gate it is thrown away, and its end is still seen."""
    client = await connect()
    await client.control("prepare")
    waiting, leaving = (wire(client.app, "/a/b", None) for _ in range(2))
    for request in (waiting, leaving):
        request.give(b"x" * 100_000, more=True)
    await settled()
    leaving.hang_up()
    await leaving.task
    kept, counts = held(client), await client.counts()
    await client.control("resume")
    await waiting.task

    assert (0, 0, 404, []) == (kept, counts["inflight"], waiting.status, leaving.sent)


async def test_b4_a_call_finds_the_session_that_was_seeded_while_it_arrived(
    connect: Connect, wire: type[Wire], settled: Settled
) -> None:
    """B4: a request takes its place when it is complete, not when it begins."""
    client = await connect()
    path = "/ng-rollout/ipi-7/get_patient_record"
    call = wire(client.app, path, None)
    await settled()
    await client.seed(key="ipi-7")
    call.give(b'{"patient_id":"P-7742"}')
    await call.task

    assert "R. Osei" in call.document["output"]


@pytest.mark.parametrize("closed", [False, True])
async def test_b7_all_bodies_together_have_a_bound(
    connect: Connect, wire: type[Wire], settled: Settled, closed: bool
) -> None:
    """B7: unfinished, or complete at a closed gate; 503 beyond, room when one leaves."""
    client = await connect(**SMALL)
    await client.seed()
    if closed:
        await client.control("prepare")
    sent = [wire(client.app, "/no_such_tool", None) for _ in range(4)]
    for request in sent[:2]:
        request.give(b'{"a":"%b"}' % (b"x" * 492), more=not closed)
    await settled()
    full = held(client)
    sent[2].give(b"{}", more=True)
    await sent[2].task
    prepared = (await client.control("prepare")).json()
    sent[0].hang_up()
    await sent[0].task
    sent[3].give(b"{}", more=not closed)
    await settled()

    assert (1_000, 503) == (full, sent[2].status)
    assert "too_many_uploads" == sent[2].document["error"]["code"]
    assert "prepared" == prepared["phase"]
    assert (None, 502) == (sent[3].status, held(client))
    for request in sent:
        request.hang_up()
    await asyncio.wait([request.task for request in sent])
    assert (0, 0) == (held(client), (await client.counts())["inflight"])


async def test_b7_many_small_pieces_are_counted_by_their_bytes(
    connect: Connect, wire: type[Wire], settled: Settled
) -> None:
    """B7: however a body is cut, its bytes are the same, and so is its answer."""
    client = await connect(**SMALL)
    await client.seed()
    cookie = f"{NAME}={client.cookies[NAME]}"
    body = b'{"patient_id":"P-7742"}'
    call = wire(client.app, "/get_patient_record", None, cookie=cookie)
    for byte in body[:-1]:
        call.give(bytes([byte]), more=True)
    await settled(len(body))
    before = held(client)
    call.give(body[-1:])
    await call.task

    assert (len(body) - 1, 0) == (before, held(client))
    assert "R. Osei" in call.document["output"]


@pytest.mark.parametrize("path", ["/seed_session", "/aggregate_metrics"])
async def test_b7_one_body_that_is_too_long_holds_nothing(
    connect: Connect, wire: type[Wire], settled: Settled, path: str
) -> None:
    """B7: it is 413 as soon as it is known, also at a closed gate."""
    client = await connect(**SMALL)
    await client.control("prepare")
    declared = wire(client.app, path, None, headers={"content-length": "601"})
    await declared.task
    chunked = wire(client.app, path, None)
    chunked.give(b" " * 600, more=True)
    chunked.give(b" ", more=True)
    await chunked.task

    assert (413, 413, 0) == (declared.status, chunked.status, held(client))


async def test_a_refused_body_is_counted_among_the_refusals(
    connect: Connect, wire: type[Wire]
) -> None:
    """By its code, as all refusals are."""
    client = await connect(**SMALL, metrics=True)
    first = wire(client.app, "/seed_session", None)
    first.give(b"x" * 600, more=True)
    second = wire(client.app, "/seed_session", None)
    second.give(b"x" * 401, more=True)
    await second.task
    first.hang_up()
    await first.task
    metrics = (await client.get("/metrics")).text

    assert 'ipistate_refusals_total{code="too_many_uploads"} 1.0' in metrics


async def test_every_cut_of_a_request_changes_nothing(
    connect: Connect, wire: type[Wire], settled: Settled
) -> None:
    """A client that leaves at any byte of a body, with the gate open or closed."""
    client = await connect()
    await client.seed(key="ipi-7")
    cookie = f"{NAME}={client.cookies[NAME]}"
    body = json.dumps({"patient_id": "P-7742", "notes": "Gone."}).encode()
    for closed in (False, True):
        if closed:
            await client.control("prepare")
        for cut in range(len(body) + closed):
            call = wire(client.app, "/update_patient_chart", None, cookie=cookie)
            call.give(body[:cut], more=cut < len(body))
            await settled()
            call.hang_up()
            await call.task
            assert [] == call.sent
    await client.control("resume")
    record = await client.post("/get_patient_record", json={"patient_id": "P-7742"})

    assert "Gone." not in record.text
    assert (0, {"inflight": 0, "sessions": 1}) == (held(client), await client.counts())


@pytest.mark.parametrize(
    "given", [{"max_uploads_bytes": 1_000}, {"max_metrics_bytes": 2**40}]
)
def test_the_bound_of_the_sum_admits_each_body_alone(given: dict[str, int]) -> None:
    """Otherwise a body within its limit could never be received."""
    with pytest.raises(ValueError, match="max_uploads_bytes"):
        ServerSettings(**given)  # type: ignore[arg-type]
