"""A server in place of one that crashed, and sessions outside a commit's scope."""

from __future__ import annotations

import logging

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ipistate.server.operating.settings import ServerSettings


if TYPE_CHECKING:
    from tests.server.conftest import Client, Wire


pytestmark = pytest.mark.anyio

SCOPE = [{"rollout_id": "ipi-7", "attempt": 0}]


async def crashed(
    connect: Callable[..., Awaitable[Client]], where: Path, **settings: Any
) -> Client:
    """Return a client of a server that has gone, with a checkpoint of its session."""
    client = await connect(**settings)
    await client.seed(key="ipi-7")
    await client.control("prepare")
    await client.control("commit", checkpoint_dir=str(where))
    return client


async def test_c6_a_call_waits_and_goes_on_in_the_restored_session(
    connect: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
    tmp_path: Path,
) -> None:
    """C6: the agent of a crashed server hears nothing until its session is back."""
    before = await crashed(connect, tmp_path)
    after = await connect(await_restore=True, cookies=before.cookies)
    (cookie,) = [f"{one.name}={one.value}" for one in before.cookies.jar]
    call = wire(after.app, "/get_messages", cookie=cookie)
    await settled()
    assert not call.sent
    assert 200 == (await after.get("/health")).status_code
    refused = await after.control("prepare", "c-2")
    assert (409, "invalid_phase") == (
        refused.status_code,
        refused.json()["error"]["code"],
    )

    given: dict[str, Any] = {"checkpoint_dir": str(tmp_path), "episode_ids": SCOPE}
    assert 200 == (await after.control("restore", "r-1", **given)).status_code
    assert not call.sent
    await after.control("resume", "r-1")
    await call.task

    assert 200 == call.status
    assert {"output": "[]"} == call.document


async def test_c6_a_refused_directory_can_be_given_up(
    connect: Callable[..., Awaitable[Client]], tmp_path: Path
) -> None:
    """C6: also one that is outside the root: its resume lets requests in."""
    (root := tmp_path / "root").mkdir()
    client = await connect(await_restore=True, checkpoint_root=root)
    given: dict[str, Any] = {"checkpoint_dir": str(tmp_path), "episode_ids": SCOPE}
    refused = await client.control("restore", "r-1", **given)
    assert (await client.status())["awaiting_restore"]
    await client.control("resume", "r-1")
    await client.seed(key="ipi-8")

    assert 422 == refused.status_code
    assert "awaiting_restore" not in await client.status()


def test_c6_needs_a_control_plane() -> None:
    """C6: without one no restore could ever come."""
    with pytest.raises(ValueError, match="needs a checkpoint token"):
        ServerSettings(await_restore=True)


@pytest.mark.parametrize("only", [False, True])
async def test_c7_leaked_sessions_are_named(
    connect: Callable[..., Awaitable[Client]],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    only: bool,
) -> None:
    """C7: in the log and by a metric, and whether the checkpoint has them."""
    client = await connect(metrics=True, export_scope_only=only)
    for number in range(22):
        other = await connect(client.app)
        await other.seed(key=f"leak-{number:02}")
    await client.seed(key="ipi-7")
    await client.control("prepare")
    with caplog.at_level(logging.WARNING):
        reply = await client.control(
            "commit", checkpoint_dir=str(tmp_path), episode_ids=SCOPE
        )
    (line,) = [r.getMessage() for r in caplog.records if "outside" in r.getMessage()]

    assert (1 if only else 23) == len(reply.json()["episode_ids"])
    assert ("left out: leak-00, " if only else "in the checkpoint: leak-00, ") in line
    assert line.endswith("leak-19 and 2 more")
    assert "ipistate_leaked_sessions 22.0" in (await client.get("/metrics")).text


async def test_c7_a_scope_that_names_all_is_not_noted(
    connect: Callable[..., Awaitable[Client]],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C7: nothing leaks, nothing is said."""
    client = await connect(metrics=True, export_scope_only=True)
    await client.seed(key="ipi-7")
    await client.control("prepare")
    given: dict[str, Any] = {"checkpoint_dir": str(tmp_path), "episode_ids": SCOPE}
    await client.control("commit", **given)

    assert not [r for r in caplog.records if "outside" in r.getMessage()]
    assert "ipistate_leaked_sessions 0.0" in (await client.get("/metrics")).text
