"""Calls that are made at most once, and calls that come at the same time."""

from __future__ import annotations

import asyncio
import json

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from hypothesis import given, settings
from hypothesis import strategies as st

from ipistate.sessions.codec import session_from_json, session_to_json
from ipistate.sessions.session import Session


if TYPE_CHECKING:
    from tests.server.conftest import Client, Wire


pytestmark = pytest.mark.anyio

CHART = "call/update_patient_chart"
TOKEN = {"authorization": "Bearer a-token"}
REFUND_WORLD = {"refunds": {"R-1": {"status": "pending", "amount": 50.0}}}
REFUND = {"refund_id": "R-1", "amount": 5.0, "reason": "late"}


def note(text: str) -> dict[str, str]:
    """Return the arguments of a call that changes the world."""
    return {"patient_id": "P-7742", "notes": text}


async def log(client: Client) -> list[tuple[str, dict[str, Any], str | None]]:
    """Return what was executed: tool, arguments and key of each call."""
    steps = (await client.extended("history")).json()["steps"]
    return [(step["name"], step["arguments"], step["key"]) for step in steps]


async def test_b68_a_retry_does_not_execute_again(
    extended: Callable[..., Awaitable[Client]],
) -> None:
    """One refund and the same bytes; another amount is a conflict; no key, no promise."""
    client = await extended()
    await client.seed(REFUND_WORLD)
    first = await client.extended("call/process_refund", REFUND, key="k")
    again = await client.extended("call/process_refund", REFUND, key="k")
    other = await client.extended(
        "call/process_refund", REFUND | {"amount": 6.0}, key="k"
    )

    assert (200, first.content) == (again.status_code, again.content)
    assert (409, "key_conflict") == (other.status_code, other.json()["error"]["code"])
    assert [("process_refund", REFUND, "k")] == await log(client)
    await client.post("/process_refund", json=REFUND)
    await client.post("/process_refund", json=REFUND)
    assert 3 == len(await log(client))


@pytest.mark.parametrize(
    "other",
    [
        {"notes": "a", "patient_id": "P-7742"},
        {"patient_id": "P-7742", "notes": "a", "more": None},
    ],
    ids=["another order", "one more"],
)
async def test_other_arguments_are_another_call(
    extended: Callable[..., Awaitable[Client]], other: dict[str, Any]
) -> None:
    """Order counts, as it does for derived ids; so do members that are null."""
    client = await extended()
    await client.seed()
    await client.extended(CHART, note("a"), key="k")

    assert 409 == (await client.extended(CHART, other, key="k")).status_code
    assert 1 == len(await log(client))


async def test_another_tool_is_another_call(
    extended: Callable[..., Awaitable[Client]],
) -> None:
    """The key belongs to the tool, too."""
    client = await extended()
    await client.seed()
    await client.extended(CHART, note("a"), key="k")
    reply = await client.extended("call/get_patient_record", note("a"), key="k")

    assert 409 == reply.status_code


@pytest.mark.parametrize(
    ("tool", "body"),
    [
        ("update_patient_chart", {"patient": "P-7742"}),
        ("nothing", {}),
    ],
    ids=["refused by the tool", "no tool"],
)
async def test_a_refusal_does_not_use_up_the_key(
    extended: Callable[..., Awaitable[Client]], tool: str, body: dict[str, str]
) -> None:
    """The same key serves another call; the refusal is an answer, and in the log."""
    client = await extended()
    await client.seed()
    refused = await client.extended(f"call/{tool}", body, key="k")
    made = await client.extended(CHART, note("a"), key="k")

    assert (200, 200) == (refused.status_code, made.status_code)
    assert [None, "k"] == [key for _, _, key in await log(client)]


@pytest.mark.parametrize("content", [b"[]", b"{", b"NaN", b'"{}"', b"null"])
async def test_a_body_that_is_refused_does_not_use_up_the_key(
    extended: Callable[..., Awaitable[Client]], content: bytes
) -> None:
    """Nothing was executed, so nothing is remembered."""
    client = await extended()
    await client.seed()
    headers = {**TOKEN, "idempotency-key": "k", "content-type": "application/json"}
    path = f"/ipistate/v1/{CHART}"
    refused = await client.post(path, content=content, headers=headers)
    made = await client.extended(CHART, note("a"), key="k")

    assert (422, 200) == (refused.status_code, made.status_code)
    assert [("update_patient_chart", note("a"), "k")] == await log(client)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([], "missing_idempotency_key"),
        ([("idempotency-key", "")], "invalid_idempotency_key"),
        ([("idempotency-key", "k" * 256)], "invalid_idempotency_key"),
        ([("idempotency-key", "\u00e9")], "invalid_idempotency_key"),
        ([("idempotency-key", "a\tb")], "invalid_idempotency_key"),
        (
            [("idempotency-key", "a"), ("idempotency-key", "a")],
            "invalid_idempotency_key",
        ),
    ],
)
async def test_a_key_that_is_none(
    extended: Callable[..., Awaitable[Client]],
    headers: list[tuple[str, str]],
    code: str,
) -> None:
    """400 with a code, and nothing is executed."""
    client = await extended(metrics=True)
    await client.seed()
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    raw += [(b"authorization", b"Bearer a-token")]
    path = f"/ipistate/v1/{CHART}"
    reply = await client.post(path, json=note("a"), headers=raw)
    metrics = (await client.get("/metrics")).text

    assert (400, code) == (reply.status_code, reply.json()["error"]["code"])
    assert f'ipistate_refusals_total{{code="{code}"}} 1.0' in metrics
    assert [] == await log(client)


async def test_only_what_is_executed_is_counted(
    extended: Callable[..., Awaitable[Client]],
) -> None:
    """The metric of tool calls has one call for a key, however often it comes."""
    client = await extended(metrics=True)
    await client.seed()
    for _ in range(3):
        await client.extended(CHART, note("a"), key="k")
    metrics = (await client.get("/metrics")).text

    assert (
        'ipistate_tool_calls_total{outcome="ok",tool="update_patient_chart"} 1.0'
        in metrics
    )


# -- clients that leave (B62) ------------------------------------------------------

LEAVES = ["before the body", "in the body", "after the body", "while it waits"]


async def call_and_leave(
    client: Client,
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
    leaves: str,
    key: str,
    body: dict[str, str],
) -> None:
    """Make a call under a key and drop the connection before the reply."""
    ((name, value),) = client.cookies.items()
    if leaves == "while it waits":
        await client.control("prepare", key)
    sent = wire(
        client.app,
        f"/ipistate/v1/{CHART}",
        None,
        cookie=f"{name}={value}",
        headers={**TOKEN, "idempotency-key": key},
    )
    content = json.dumps(body).encode()
    if leaves == "in the body":
        sent.give(content[:5], more=True)
    elif leaves != "before the body":
        sent.give(content)
    sent.hang_up()
    await settled()
    await sent.task
    if leaves == "while it waits":
        await client.control("resume", key)


@settings(deadline=None)
@given(
    calls=st.lists(
        st.tuples(st.sampled_from(LEAVES), st.sampled_from("abc")),
        min_size=1,
        max_size=4,
    )
)
def test_b62_a_dropped_connection_has_no_second_effect(
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
    fresh: Callable[..., Client],
    calls: list[tuple[str, str]],
) -> None:
    """Whenever the client leaves: the call, repeated under its key, took effect once."""

    async def run() -> list[tuple[str, dict[str, Any], str | None]]:
        async with fresh() as client:
            await client.seed()
            for number, (leaves, text) in enumerate(calls):
                key, body = f"k{number}", note(text)
                await call_and_leave(client, wire, settled, leaves, key, body)
                first = await client.extended(CHART, body, key=key)
                again = await client.extended(CHART, body, key=key)
                assert (200, first.content) == (again.status_code, again.content)
                assert 0 == (await client.counts())["inflight"]
            return await log(client)

    assert asyncio.run(run()) == [
        ("update_patient_chart", note(text), f"k{number}")
        for number, (_, text) in enumerate(calls)
    ]


async def test_b62_the_reply_of_the_lost_call_is_the_recorded_one(
    extended: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """What the repeated call reads is what was said when it took effect."""
    client = await extended()
    await client.seed()
    body = {"recipient": "a@b.test", "subject": "s", "body": "b"}
    ((name, value),) = client.cookies.items()
    sent = wire(
        client.app,
        "/ipistate/v1/call/send_message",
        json.dumps(body).encode(),
        cookie=f"{name}={value}",
        headers={**TOKEN, "idempotency-key": "k"},
    )
    await sent.task
    exported = await client.exported()
    again = await client.extended("call/send_message", body, key="k")

    assert sent.document == again.json()
    assert exported == await client.exported()


# -- calls at the same time (B70) --------------------------------------------------


async def test_b70_calls_at_the_same_time_have_an_order(
    extended: Callable[..., Awaitable[Client]],
) -> None:
    """200 rounds of two calls and a read: the log, executed again, gives the bytes."""
    client = await extended()
    await client.seed()
    told: list[str] = []
    for number in range(200):
        replies = await asyncio.gather(
            client.post("/update_patient_chart", json=note(f"A{number}")),
            client.extended(CHART, note(f"B{number}"), key=str(number)),
        )
        told += [reply.json()["output"] for reply in replies]
        read = await client.post("/get_patient_record", json=note("x"))
        told.append(read.json()["output"])
    exported = await client.exported()
    session = session_from_json(exported)
    replayed = Session(session.seed)
    for step in session.log:
        replayed = (
            replayed.step(step.call.name, step.call.arguments)
            if step.key is None
            else replayed.once(step.key, step.call.name, step.call.arguments)[0]
        )

    assert 600 == len(session.log)
    assert sorted(told) == sorted(step.output for step in session.log)
    assert exported == session_to_json(replayed)
