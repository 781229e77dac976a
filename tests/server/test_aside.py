"""Large requests: computed beside the event loop, with the same answers and effects."""

from __future__ import annotations

import asyncio
import threading

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from ipistate.server.live.aside import (
    LARGE_EFFECTS,
    LARGE_METRICS,
    LARGE_SEED,
    LARGE_TRACE,
    Aside,
)
from ipistate.server.live.scoring import MAX_RESPONSES


if TYPE_CHECKING:
    from tests.server.conftest import Client

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kind", ["seed", "exchange", "metrics"])
async def test_b3_large_work_leaves_the_loop_free(kind: str) -> None:
    """B3: work on a large body waits for what the loop does meanwhile."""
    done = threading.Event()
    work = getattr(Aside(), kind)(done.wait, b"x" * LARGE_SEED)
    started = asyncio.ensure_future(work)
    await asyncio.sleep(0)
    done.set()

    assert await started


@pytest.mark.parametrize("kind", ["seed", "exchange", "metrics"])
async def test_small_work_is_done_at_once(kind: str) -> None:
    """Work on a small body never leaves the loop's thread."""
    here = await getattr(Aside(), kind)(threading.get_ident, b"{}")

    assert threading.get_ident() == here


async def test_b3_metrics_hold_up_no_session() -> None:
    """B3: a large seed is read while large metrics are still being computed."""
    aside, done, large = Aside(), threading.Event(), b"x" * LARGE_SEED
    metrics = asyncio.ensure_future(aside.metrics(done.wait, large))
    await aside.seed(done.set, large)

    assert await metrics


@pytest.mark.parametrize("size", [0, LARGE_TRACE])
@pytest.mark.parametrize("effects", [False, True])
async def test_b3_a_verify_of_any_size(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    verify_body: dict[str, Any],
    size: int,
    effects: bool,
) -> None:
    """B3: a large request is answered as a small one, and ends the session as well."""
    assert LARGE_EFFECTS < LARGE_TRACE
    client = await connect(effects=effects)
    await client.seed(world)
    bad = await client.post("/verify", json={"pad": "x" * size})
    assert bad.status_code == 422
    assert (await client.post("/get_patient_record", json={})).status_code == 200

    body = {**verify_body, "pad": "x" * size, "environment": world}
    reply = await client.post("/verify", json=body)

    assert (200, 1.0) == (reply.status_code, reply.json()["reward"])
    assert (await client.post("/get_patient_record", json={})).status_code == 400


async def test_b3_a_large_seed(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """B3: a large seed takes effect as a small one does, or not at all."""
    client = await connect()
    pad = "x" * LARGE_SEED
    bad = await client.post("/seed_session", json={"environment": [], "pad": pad})
    await client.seed({**world, "pad": pad})
    reply = await client.post("/get_patient_record", json={"patient_id": "P-7742"})

    assert (422, 200) == (bad.status_code, reply.status_code)
    assert "R. Osei" in reply.text


async def test_b3_large_metrics(connect: Callable[..., Awaitable[Client]]) -> None:
    """B3: the metrics of many results, and the refusal of one bad among them."""
    client = await connect()
    results: list[Any] = [{"reward": 1.0}] * (LARGE_METRICS // 10)
    good = await client.post("/aggregate_metrics", json={"verify_responses": results})
    results[-1] = {"reward": "1"}
    bad = await client.post("/aggregate_metrics", json={"verify_responses": results})

    assert 1.0 == good.json()["agent_metrics"]["avg_reward"]
    where = ["body", "verify_responses", len(results) - 1, "reward"]
    assert (422, where) == (bad.status_code, bad.json()["detail"][0]["loc"])


async def test_b3_too_many_results(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """B3: more results than one request may have are refused, with a code."""
    client = await connect()
    text = b'{"verify_responses":[' + b"{}," * MAX_RESPONSES + b"{}]}"
    headers = {"content-type": "application/json"}
    reply = await client.post("/aggregate_metrics", content=text, headers=headers)

    assert 422 == reply.status_code
    assert "too_many_responses" == reply.json()["detail"][0]["type"]
