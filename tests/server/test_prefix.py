"""The rollout prefix: every route works with it and without it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest


if TYPE_CHECKING:
    from tests.server.conftest import Client


pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("key", ["ipi-7", "ipi-7-a1", "x-a0", "x-a0-a4", "t3-r0.b-a12"])
async def test_a_prefixed_seed_binds_its_session(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any], key: str
) -> None:
    """A seed below a legal capture key is served and tracked."""
    client = await connect()
    reply = await client.post(
        f"/ng-rollout/{key}/seed_session", json={"environment": world}
    )

    assert reply.status_code == 200
    assert await client.counts() == {"inflight": 0, "sessions": 1}


async def test_a_seed_without_prefix_is_served_but_not_tracked(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """Only the prefix says which episode a session belongs to."""
    client = await connect()
    reply = await client.post("/seed_session", json={"environment": world})

    assert reply.status_code == 200
    assert await client.counts() == {"inflight": 0, "sessions": 0}


@pytest.mark.parametrize("key", ["r-a1-a2", "x-a9-a1", "r-a" + "1" * 5000])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_key_without_an_episode_is_refused(
    connect: Callable[..., Awaitable[Client]], key: str, method: str
) -> None:
    """Malformed capture keys are 400 on every route, and nothing is seeded."""
    client = await connect()
    path = f"/ng-rollout/{key}/seed_session"
    reply = await client.request(method, path, json={"environment": {}})

    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == "invalid_rollout_id"
    assert await client.counts() == {"inflight": 0, "sessions": 0}


@pytest.mark.parametrize(
    "path",
    [
        "/ng-rollout/ipi-7",
        "/ng-rollout//seed_session",
        "/ng-rollout/-x/seed_session",
        "/ng-rollout/a%20b/seed_session",
        "/ng-rollout/a/b%0Ac",
        "/ng-rollout/a/seed_session%0A",
        "/ng-rollout/a%0A/seed_session",
        "/NG-rollout/a/seed_session",
    ],
)
async def test_other_paths_are_served_as_they_are(
    connect: Callable[..., Awaitable[Client]], path: str
) -> None:
    """What does not match the pattern is an unknown path of several segments."""
    client = await connect()

    assert (await client.post(path, json={})).status_code == 404


@pytest.mark.parametrize("path", ["/health", "/", "/reverify_mode"])
async def test_get_routes_work_below_the_prefix(
    connect: Callable[..., Awaitable[Client]], path: str
) -> None:
    """The prefix can stand before any route."""
    client = await connect()
    plain, prefixed = (
        await client.get(path),
        await client.get(f"/ng-rollout/ipi-7{path}"),
    )

    assert plain.status_code == 200
    assert plain.text == prefixed.text
