"""Idempotency keys and forks where requests, seeds, forks and checkpoints meet."""

from __future__ import annotations

import asyncio
import json

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest


if TYPE_CHECKING:
    from tests.server.conftest import Client, Wire


pytestmark = pytest.mark.anyio

CHART = "call/update_patient_chart"
TOKEN = {"authorization": "Bearer a-token"}


def note(text: str) -> dict[str, str]:
    """Return the arguments of a call that changes the world."""
    return {"patient_id": "P-7742", "notes": text}


def cookie_of(client: Client) -> str:
    """Return the client's own cookie."""
    ((name, value),) = client.cookies.items()
    return f"{name}={value}"


async def length(client: Client) -> int:
    """Return how many calls the session's log has."""
    found: int = (await client.extended("history")).json()["length"]
    return found


def keyed(client: Client, wire: type[Wire], body: bytes | None) -> Wire:
    """Begin a call under a key at the level of ASGI."""
    headers = {**TOKEN, "idempotency-key": "k"}
    path = f"/ipistate/v1/{CHART}"
    return wire(client.app, path, body, cookie=cookie_of(client), headers=headers)


@pytest.mark.parametrize("waits", [False, True])
async def test_equal_keys_at_the_same_time(
    extended: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
    waits: bool,
) -> None:
    """One of ten calls takes effect, also if all have waited for a resume."""
    client = await extended()
    await client.seed(key="ipi-7")
    if waits:
        await client.control("prepare")
    body = json.dumps(note("a")).encode()
    sent = [keyed(client, wire, None) for _ in range(10)]
    await settled()
    for one in reversed(sent):
        one.give(body)
    await settled()
    if waits:
        assert {None} == {one.status for one in sent}
        await client.control("resume")
    await asyncio.gather(*(one.task for one in sent))

    assert {200} == {one.status for one in sent}
    assert 1 == len({json.dumps(one.document) for one in sent})
    assert 1 == await length(client)


async def test_who_leaves_before_the_resume_has_no_effect(
    extended: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """The key is free for another call; nobody is left inside."""
    client = await extended()
    await client.seed(key="ipi-7")
    await client.control("prepare")
    sent = keyed(client, wire, json.dumps(note("a")).encode())
    await settled()
    sent.hang_up()
    await sent.task
    await client.control("resume")
    other = await client.extended(CHART, note("b"), key="k")

    assert ([], 200, 1) == (sent.sent, other.status_code, await length(client))
    assert {"inflight": 0, "sessions": 1} == await client.counts()


async def test_a_key_belongs_to_one_life_of_a_session(
    extended: Callable[..., Awaitable[Client]],
) -> None:
    """A new seed frees it; a fork keeps it, and each branch may go its own way."""
    client = await extended()
    await client.seed()
    await client.extended(CHART, note("a"), key="k")
    (told,) = (await client.extended("fork", {"count": 1})).json()["sessions"]
    branch = await extended(told["cookie"])
    await branch.extended("rewind", {"count": 1})
    freed = await branch.extended(CHART, note("b"), key="k")
    kept = await client.extended(CHART, note("b"), key="k")
    await client.seed()
    again = await client.extended(CHART, note("c"), key="k")
    own = await branch.extended(CHART, note("b"), key="k")

    assert (200, 409, 200) == (freed.status_code, kept.status_code, again.status_code)
    assert (freed.content, 1, 1) == (
        own.content,
        await length(client),
        await length(branch),
    )


async def test_a_prepare_does_not_wait_for_a_fork_that_was_refused(
    extended: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """It is answered as soon as the fork is: nobody is inside any more."""
    client = await extended()
    await client.seed(key="ipi-7")
    sent = wire(
        client.app,
        "/ipistate/v1/fork",
        None,
        cookie=cookie_of(client),
        headers=TOKEN,
        slow=True,
    )
    await settled()
    ids = [{"rollout_id": "a"}]
    await client.control("retire", "x-1", episode_ids=ids)
    prepare = asyncio.ensure_future(client.control("prepare"))
    await settled()
    waits = not prepare.done()
    sent.give(json.dumps({"episode_ids": ids}).encode())
    document = (await prepare).json()
    await sent.task

    assert (True, 409, "prepared") == (waits, sent.status, document["phase"])
    assert 1 == document["report"]["counts"]["sessions"]


async def test_a_fork_of_the_retired_attempt_itself(
    extended: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """A fork that was let in before goes on for another episode; its origin is freed."""
    client = await extended()
    await client.seed(key="ipi-7")
    sent = wire(
        client.app,
        "/ipistate/v1/fork",
        None,
        cookie=cookie_of(client),
        headers=TOKEN,
        slow=True,
    )
    await settled()
    ids = [{"rollout_id": "ipi-7"}]
    retire = asyncio.ensure_future(client.control("retire", episode_ids=ids))
    await settled()
    waits = not retire.done()
    sent.give(json.dumps({"episode_ids": [{"rollout_id": "b"}]}).encode())
    await sent.task
    reply = await retire

    assert (True, 200, 200) == (waits, sent.status, reply.status_code)
    assert {"inflight": 0, "sessions": 1} == await client.counts()
    late = await client.extended("fork", {"count": 1})
    assert (409, "stale_attempt") == (late.status_code, late.json()["error"]["code"])


@pytest.mark.parametrize("version", [1, 2])
async def test_forks_into_an_episode_that_runs(
    extended: Callable[..., Awaitable[Client]],
    fresh: Callable[..., Client],
    tmp_path: Path,
    version: int,
) -> None:
    """Two sessions of one episode are both kept; both go on after a restore."""
    client = await extended(checkpoint_state_version=version)
    await client.seed(key="ipi-7")
    body = {"episode_ids": [{"rollout_id": "ipi-7"}]}
    (told,) = (await client.extended("fork", body)).json()["sessions"]
    branch = await extended(told["cookie"])
    await branch.post("/update_patient_chart", json=note("branch"))
    read = {"patient_id": "P-7742"}
    cookies = [cookie_of(client), told["cookie"]]
    before = [
        (await one.post("/get_patient_record", json=read)).content
        for one in (client, branch)
    ]
    await client.control("prepare")
    await client.control("commit", checkpoint_dir=str(tmp_path))

    async with fresh(checkpoint_state_version=version) as other:
        members: dict[str, Any] = {
            "checkpoint_dir": str(tmp_path),
            "episode_ids": body["episode_ids"],
        }
        restored = await other.control("restore", "r-1", **members)
        await other.control("resume", "r-1")
        after: list[bytes] = []
        for cookie in cookies:
            other.cookies.clear()
            other.cookies.set(*cookie.split("=", 1))
            after.append((await other.post("/get_patient_record", json=read)).content)

    assert 200 == restored.status_code, restored.text
    assert (before, 2) == (after, len({*after}))
