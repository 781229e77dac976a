"""The gate over HTTP: who waits, who passes, and what a client that leaves causes."""

from __future__ import annotations

import asyncio
import json

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from ipistate.kernel.environment import Environment
from ipistate.kernel.values import JsonObject
from ipistate.scoring.verifier import Verdict
from ipistate.scoring.verify_request import VerifyRequest
from ipistate.server.adapter.cookies import SessionCookie


if TYPE_CHECKING:
    from tests.server.conftest import Client, Wire


pytestmark = pytest.mark.anyio

NAME = "IPIResourcesServer___ipi"
POSTS = [
    ("/seed_session", {"environment": {}}),
    ("/get_patient_record", {"patient_id": "P-7742"}),
    ("/no_such_tool", {}),
    (
        "/close_session",
        {"resources_session_id": "x", "episode_id": {"rollout_id": "r"}},
    ),
    ("/aggregate_metrics", {"verify_responses": []}),
    ("/a/b", {}),
]


async def seeded(client: Client, world: dict[str, Any], key: str = "ipi-7") -> str:
    """Seed a session below a prefix and return its cookie header."""
    await client.post(f"/ng-rollout/{key}/seed_session", json={"environment": world})
    return f"{NAME}={client.cookies[NAME]}"


def notes(text: str) -> bytes:
    """Return the body of a call that changes the chart."""
    return json.dumps({"patient_id": "P-7742", "notes": text}).encode()


@pytest.mark.parametrize(("path", "body"), POSTS)
async def test_posts_wait_for_the_resume(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
    path: str,
    body: dict[str, Any],
) -> None:
    """No answer and no count while the checkpoint is open, then the usual answer."""
    client = await connect()
    cookie = await seeded(client, world)
    await client.control("prepare")
    request = wire(client.app, path, json.dumps(body).encode(), cookie=cookie)
    await settled()
    waiting, counts = request.status, await client.counts()
    await client.control("resume")
    await request.task

    assert (None, 0) == (waiting, counts["inflight"])
    assert request.status in {200, 404}


@pytest.mark.parametrize("phase", ["prepared", "committed", "restored"])
async def test_gets_and_control_answer_in_every_phase(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
    tmp_path: Path,
    phase: str,
) -> None:
    """Only data requests wait, in each of the closed phases."""
    client = await connect()
    cookie = await seeded(client, world)
    await client.control("prepare")
    if phase != "prepared":
        await client.control("commit", checkpoint_dir=str(tmp_path))
    if phase == "restored":
        client = await connect()
        scope = [{"rollout_id": "ipi-7"}]
        await client.control("restore", checkpoint_dir=str(tmp_path), episode_ids=scope)
    call = wire(client.app, "/get_patient_record", notes(""), cookie=cookie)
    await settled()

    assert phase == (await client.status())["phase"]
    assert (await client.get("/health")).status_code == 200
    assert (await client.head("/ng-rollout/ipi-7/health")).status_code == 200
    assert call.status is None
    await client.control("resume")
    await call.task
    assert call.status == 200


async def test_b70_waiting_calls_of_a_session_run_in_order_of_arrival(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """Fifty calls wait; the last that arrived is the last that took effect."""
    client = await connect()
    cookie = await seeded(client, world)
    await client.control("prepare")
    path = "/update_patient_chart"
    calls: list[Wire] = []
    for number in range(50):
        calls.append(wire(client.app, path, notes(f"note {number}"), cookie=cookie))
        await settled()
    resume = asyncio.ensure_future(client.control("resume"))
    late = wire(client.app, path, notes("late"), cookie=cookie)
    await asyncio.gather(resume, late.task, *(call.task for call in calls))
    record = await client.post("/get_patient_record", json={"patient_id": "P-7742"})
    written = json.loads(record.json()["output"])["chart_notes"]
    places = [written.index(f"note {number}") for number in range(50)]

    assert sorted(places) == places
    assert written.endswith("late")


async def test_a_call_behind_woken_ones_does_not_overtake_them(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """A request that finds the gate just opened lets those go first who waited."""
    client = await connect()
    cookie = await seeded(client, world)
    await client.control("prepare")
    path = "/update_patient_chart"
    first = wire(client.app, path, notes("first"), cookie=cookie)
    await settled()
    order: list[str] = []
    resume = asyncio.ensure_future(client.control("resume"))
    first.task.add_done_callback(lambda _: order.append("first"))
    for _ in range(30):
        second = wire(client.app, path, notes("second"), cookie=cookie)
        second.task.add_done_callback(lambda _: order.append("second"))
        await asyncio.sleep(0)
    await asyncio.gather(resume, first.task, second.task)
    await settled()

    assert "first" == order[0]


async def test_b62_who_leaves_while_waiting_leaves_nothing(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """The call has no effect, gets no answer, and is not counted."""
    client = await connect()
    cookie = await seeded(client, world)
    await client.control("prepare")
    call = wire(client.app, "/update_patient_chart", notes("Gone."), cookie=cookie)
    await settled()
    call.hang_up()
    await call.task
    await client.control("resume")
    record = await client.post("/get_patient_record", json={"patient_id": "P-7742"})

    assert [] == call.sent
    assert "Gone." not in record.text
    assert await client.counts() == {"inflight": 0, "sessions": 1}


async def test_b62_who_leaves_in_the_middle_of_a_body_leaves_nothing(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """Never in flight: what is not complete has no effect."""
    client = await connect()
    cookie = await seeded(client, world)
    call = wire(client.app, "/update_patient_chart", None, cookie=cookie)
    call.give(notes("Gone.")[:20], more=True)
    await settled()
    during = await client.counts()
    call.hang_up()
    await call.task

    assert 0 == during["inflight"]
    assert [] == call.sent
    assert await client.counts() == {"inflight": 0, "sessions": 1}


async def test_b62_who_leaves_after_the_body_has_one_effect(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """A complete call is executed once, though nobody reads the answer."""
    client = await connect()
    cookie = await seeded(client, world)
    call = wire(client.app, "/update_patient_chart", notes("Once."), cookie=cookie)
    call.hang_up()
    await call.task
    record = await client.post("/get_patient_record", json={"patient_id": "P-7742"})

    assert 1 == record.text.count("Once.")
    assert (await client.counts())["inflight"] == 0


async def test_a_cancelled_request_is_not_counted(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """A server that stops cancels its requests, waiting or in flight."""
    client = await connect()
    cookie = await seeded(client, world)
    path = "/update_patient_chart"
    inside = wire(client.app, path, None, cookie=cookie, slow=True)
    await settled()
    prepare = asyncio.ensure_future(client.control("prepare", seconds=20))
    await settled()
    outside = wire(client.app, "/update_patient_chart", notes("x"), cookie=cookie)
    await settled()
    inside.task.cancel()
    outside.task.cancel()
    await asyncio.wait([inside.task, outside.task])

    assert "prepared" == (await prepare).json()["phase"]
    assert await client.counts() == {"inflight": 0, "sessions": 1}


async def test_a_request_in_flight_keeps_a_checkpoint_from_being_ready(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """`preparing` at the deadline, admission closed; repeated, it becomes `prepared`."""
    client = await connect()
    cookie = await seeded(client, world)
    path = "/update_patient_chart"
    call = wire(client.app, path, None, cookie=cookie, slow=True)
    await settled()
    early = (await client.control("prepare", seconds=0.01)).json()
    waiting = wire(client.app, "/no_such_tool", cookie=cookie)
    await settled()
    call.give(notes("Late."))
    await call.task
    ready = (await client.control("prepare")).json()
    waited = waiting.status
    await client.control("resume")
    await waiting.task

    assert ("preparing", False) == (early["phase"], early["report"]["ready"])
    assert {"inflight": 1, "sessions": 1} == early["report"]["counts"]
    assert ("prepared", None, 200) == (ready["phase"], waited, call.status)


async def test_b49_commits_see_whole_calls(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any], tmp_path: Path
) -> None:
    """Two calls and a checkpoint at one moment: all effects are kept, none is halved."""
    client = await connect()
    await seeded(client, world)
    for number in range(40):
        update = "/update_patient_chart"
        calls = [
            client.post(update, content=notes(f"<{number}.{half}>"), headers=JSON)
            for half in (1, 2)
        ]
        name = f"c-{number}"
        results = await asyncio.gather(
            *calls, client.control("prepare", name), return_exceptions=False
        )
        await client.control("resume", name)
        assert [200, 200, 200] == [reply.status_code for reply in results]
    record = await client.post("/get_patient_record", json={"patient_id": "P-7742"})

    for number in range(40):
        assert f"<{number}.1>" in record.json()["output"]
        assert f"<{number}.2>" in record.json()["output"]


JSON = {"content-type": "application/json"}


async def test_b55_the_prefix_finds_the_session_of_a_client_without_cookies(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """Clients whose jar drops cookies of bare addresses can use the rollout prefix."""
    client = await connect()
    await seeded(client, world)
    await seeded(await connect(client.app), {}, "ipi-8")
    client.cookies.clear()
    path = "/ng-rollout/ipi-7/get_patient_record"
    record = await client.post(path, json={"patient_id": "P-7742"})
    client.cookies.clear()
    unknown = await client.post(
        path.replace("ipi-7", "ipi-9"), json={"patient_id": "P-7742"}
    )

    assert "R. Osei" in record.text
    assert 400 == unknown.status_code


async def test_the_cookie_goes_before_the_prefix(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """A session is found by its cookie alone, whatever the prefix says."""
    client = await connect()
    other = await connect(client.app)
    await seeded(client, world)
    await seeded(other, {"patients": {"P-7742": "other"}}, "ipi-8")
    path = "/ng-rollout/ipi-8/get_patient_record"
    record = await client.post(path, json={"patient_id": "P-7742"})

    assert "R. Osei" in record.text


async def test_a_failing_handler_is_a_500_and_not_counted(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The body is the exception's repr as a JSON string; the server goes on."""

    def fail(*_: str | Environment | JsonObject, **__: Mapping[str, Any]) -> NoReturn:
        raise RuntimeError("boom")

    monkeypatch.setattr("ipistate.server.app.call_tool", fail)
    client = await connect()
    await seeded(client, world)
    reply = await client.post("/get_patient_record", json={})

    assert (500, "RuntimeError('boom')") == (reply.status_code, reply.json())
    assert await client.counts() == {"inflight": 0, "sessions": 1}


async def test_a_failing_verify_drops_the_world(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    verify_body: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The environment is gone, the tracking stays until the next export."""
    client = await connect()
    await seeded(client, world)

    def fail(*_: Verdict | VerifyRequest) -> NoReturn:
        raise RuntimeError("boom")

    monkeypatch.setattr("ipistate.server.live.scoring.verify_reply", fail)
    failed = await client.post("/verify", json=verify_body)
    call = await client.post("/get_patient_record", json={"patient_id": "P-7742"})

    assert (500, 400) == (failed.status_code, call.status_code)
    assert await client.counts() == {"inflight": 0, "sessions": 1}


async def test_a14_a_seed_that_is_repeated_without_its_cookie_makes_no_second_session(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """Its reply may have got lost; the episode's session starts afresh, cookie or not."""
    client = await connect()
    await seeded(client, world)
    first = client.cookies[NAME]
    client.cookies.clear()
    await seeded(client, world)
    ids = {
        SessionCookie(NAME, NAME).read(
            {"headers": [(b"cookie", f"{NAME}={value}".encode())]}
        )["session_id"]
        for value in (first, client.cookies[NAME])
    }

    assert 1 == len(ids)
    assert (await client.counts())["sessions"] == 1
