"""A disk that fails at any step of a commit or a restore: the server goes on serving."""

from __future__ import annotations

import errno
import os

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import durability
import pytest


if TYPE_CHECKING:
    from tests.server.conftest import Client


pytestmark = pytest.mark.anyio

WRITING, READING = durability.names_of_steps(durability.OURS[:1])
READING.remove("read records 3")  # a small world needs no third
ROLLOUT = "/ng-rollout/ipi-7"
CALL = {"patient_id": "P-7742"}


def failing_once(
    base: Path, step: str
) -> tuple[AbstractContextManager[durability.Watch], list[str]]:
    """Return a watch below which one step fails once, and the list it empties."""
    left = [step]

    def notice(moment: str, one: durability.Step) -> None:
        if moment == "before" and [one.name] == left:
            left.clear()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return durability.Watch(base, notice).watching(), left


async def seeded(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> Client:
    """Return a client whose session is seeded."""
    client = await connect()
    reply = await client.post(f"{ROLLOUT}/seed_session", json={"environment": world})
    reply.raise_for_status()
    return client


async def told(client: Client) -> tuple[int, str]:
    """Return what a tool says, and whether liveness is answered."""
    health = await client.get("/health")
    reply = await client.post("/get_patient_record", json=CALL)
    return health.status_code, reply.json()["output"]


@pytest.mark.parametrize("step", WRITING)
async def test_a_commit_that_fails_is_repeated(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    tmp_path: Path,
    step: str,
) -> None:
    """422 at the fault, or 200 where it does no harm; the same commit then succeeds."""
    client = await seeded(connect, world)
    before = await told(client)
    directory: dict[str, Any] = {"checkpoint_dir": str(tmp_path / "checkpoint")}
    await client.control("prepare")
    watching, left = failing_once(tmp_path, step)
    with watching:
        failed = await client.control("commit", **directory)
    health = await client.get("/health")
    repeated = await client.control("commit", **directory)
    await client.control("resume")

    assert (200, []) == (health.status_code, left)
    assert failed.status_code == (200 if step.startswith("unlink") else 422)
    assert (200, 1) == (
        repeated.status_code,
        repeated.json()["manifest"]["record_count"],
    )
    assert before == await told(client)


@pytest.mark.parametrize("step", WRITING)
async def test_a_commit_that_fails_can_be_given_up(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    tmp_path: Path,
    step: str,
) -> None:
    """After a resume the next checkpoint goes to another directory."""
    client = await seeded(connect, world)
    before = await told(client)
    await client.control("prepare")
    watching, _ = failing_once(tmp_path, step)
    with watching:
        await client.control("commit", checkpoint_dir=str(tmp_path / "checkpoint"))
    await client.control("resume")
    between = await told(client)
    await client.control("prepare", "c-2")
    other = str(tmp_path / "other")
    done = await client.control("commit", "c-2", checkpoint_dir=other)
    await client.control("resume", "c-2")

    assert before == between == await told(client)
    assert "c-2" == done.json()["manifest"]["checkpoint_id"]


@pytest.mark.parametrize("step", READING)
async def test_a_restore_that_fails_is_repeated(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    tmp_path: Path,
    step: str,
) -> None:
    """422, nothing installed, idle; the same restore then succeeds and goes on."""
    client = await seeded(connect, world)
    before = await told(client)
    members: dict[str, Any] = {
        "checkpoint_dir": str(tmp_path / "checkpoint"),
        "episode_ids": [{"rollout_id": "ipi-7", "attempt": 0}],
    }
    await client.control("prepare")
    await client.control("commit", **members)
    fresh = await connect(cookies=client.cookies)
    watching, left = failing_once(tmp_path, step)
    with watching:
        failed = await fresh.control("restore", "r-1", **members)
    status = await fresh.status()
    restored = await fresh.control("restore", "r-1", **members)
    await fresh.control("resume", "r-1")

    assert (422, []) == (failed.status_code, left)
    assert ("idle", 0) == (status["phase"], status["report"]["counts"]["sessions"])
    assert ["ipi-7-a1"] == restored.json()["restored"]
    assert before == await told(fresh)
