"""What ``GET /metrics`` shows, and that it is not there unless it is asked for."""

from __future__ import annotations

import gc
import re
import sys

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from prometheus_client.parser import text_string_to_metric_families
from starlette.routing import Route

from ipistate.kernel.values import JsonObject
from ipistate.server.operating.collector import Pauses
from ipistate.tools import TOOLS
from ipistate.tools.strict import strict


if TYPE_CHECKING:
    from prometheus_client.samples import Sample
    from tests.server.conftest import Client, Wire


pytestmark = pytest.mark.anyio

CALL = {"patient_id": "P-7742"}


def labels_of(sample: Sample) -> list[str]:
    """Return the values of a sample's labels: the tool, then the outcome."""
    return [value for _, value in sorted(sample.labels.items(), reverse=True)]


async def scraped(client: Client) -> dict[tuple[str, ...], float]:
    """Return the samples by name and label values."""
    reply = await client.get("/metrics")
    assert 200 == reply.status_code
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name.removeprefix("ipistate_"), *labels_of(sample)): sample.value
        for family in text_string_to_metric_families(reply.text)
        for sample in family.samples
    }


async def seeded(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any], **settings: Any
) -> Client:
    """Return a client of a server with metrics and one tracked session."""
    client = await connect(metrics=True, **settings)
    await client.post("/ng-rollout/ipi-7/seed_session", json={"environment": world})
    return client


async def test_without_the_flag_there_is_no_such_route(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """Then the path is like any other that is not there."""
    client = await connect()
    reply = await client.get("/metrics")

    assert 405 == reply.status_code
    assert "/metrics" not in [
        route.path for route in client.app.routes if isinstance(route, Route)
    ]


async def test_a_tool_may_still_have_this_name(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """A POST is a tool call as before."""
    client = await seeded(connect, world)
    reply = await client.post("/metrics", json={})

    assert {"output": "Unknown tool: metrics"} == reply.json()


async def test_sessions_and_requests_are_shown_as_they_are(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """Live and tracked sessions, requests that run and that wait, the phase."""
    client = await seeded(connect, world)
    other = await connect(client.app)
    await other.post("/seed_session", json={"environment": world})
    running = wire(client.app, "/no_such_tool", None, slow=True)
    await settled()
    before = await scraped(client)
    running.give(b"{}")
    await running.task
    await client.control("prepare")
    waiting = wire(client.app, "/no_such_tool", b"{}")
    await settled()
    after = await scraped(client)
    await client.control("resume")
    await waiting.task

    assert (2, 1, 1, 0) == (
        before["sessions",],
        before["tracked_sessions",],
        before["requests_in_flight",],
        before["requests_waiting",],
    )
    assert (0, 1) == (after["requests_in_flight",], after["requests_waiting",])
    assert (1, 0) == (before["phase", "idle"], before["phase", "prepared"])
    assert (0, 1) == (after["phase", "idle"], after["phase", "prepared"])


async def test_calls_are_counted_by_tool_and_outcome(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """What models make up is one label, however many names there are."""
    client = await seeded(connect, world)
    for _ in range(3):
        await client.post("/get_patient_record", json=CALL)
    await client.post("/get_patient_record", json={})
    for number in range(20):
        await client.post(f"/made_up_{number}", json={})
    found = await scraped(client)
    calls = {key[1:]: n for key, n in found.items() if key[0] == "tool_calls_total"}

    assert {
        ("get_patient_record", "ok"): 3,
        ("get_patient_record", "error"): 1,
        ("(unknown)", "unknown"): 20,
    } == calls


async def test_labels_hold_nothing_that_a_caller_sends(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """Neither paths nor ids nor what stands in a world."""
    client = await seeded(connect, world, instance_name="somebody")
    await client.post("/ng-rollout/r-a1-a2/seed_session", json={})
    await client.post("/strange", json={})
    await client.control("resume", "strange")
    text = (await client.get("/metrics")).text
    values = set(re.findall(r'="([^"]*)"', text))
    known = {*TOOLS, "(unknown)", "unknown", "ok", "error", "invalid_rollout_id"}
    stages = {"export", "write", "read", "install"}
    phases = {"idle", "preparing", "prepared", "committed", "restored"}
    numbers = {value for value in values if re.fullmatch(r"[\d.e-]+|\+Inf", value)}

    assert set() == values - known - stages - phases - numbers


async def test_refusals_are_counted_by_code(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any], tmp_path: Path
) -> None:
    """Of the token, the prefix, bodies, stale attempts and control calls alike."""
    client = await seeded(connect, world)
    await client.get("/ng-control/v1/checkpoint/status")
    await client.post("/ng-rollout/r-a1-a2/seed_session", json={})
    await client.post("/seed_session", json={})
    await client.post("/seed_session", content=b"{", headers={"content-type": "a/b"})
    await client.control("commit", checkpoint_dir=str(tmp_path))
    await client.control("prepare", checkpoint_dir=7)
    await client.post("/ng-rollout/ipi-8/seed_session", json={"environment": world})
    found = await scraped(client)
    refusals = {key[1]: n for key, n in found.items() if key[0] == "refusals_total"}

    assert {
        "unauthorized": 1,
        "invalid_rollout_id": 1,
        "missing_member": 1,
        "wrong_content_type": 1,
        "invalid_phase": 1,
        "unknown_member": 1,
    } == refusals


async def test_work_on_checkpoints_is_measured(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any], tmp_path: Path
) -> None:
    """Each stage with its time and its bytes, and the age of what was published."""
    client = await seeded(connect, world)
    before = await scraped(client)
    await client.control("prepare")
    await client.control("commit", checkpoint_dir=str(tmp_path))
    (records,) = tmp_path.rglob("records-*.jsonl")
    committed = await scraped(client)
    fresh = await connect(metrics=True)
    scope = [{"rollout_id": "ipi-7"}]
    await fresh.control("restore", checkpoint_dir=str(tmp_path), episode_ids=scope)
    restored = await scraped(fresh)
    size = records.stat().st_size

    assert ("checkpoint_age_seconds",) not in before
    assert 0 <= committed["checkpoint_age_seconds",] < 60
    for found, stages in (
        (committed, ("export", "write")),
        (restored, ("read", "install")),
    ):
        for stage in stages:
            assert 1 == found["checkpoint_seconds_count", stage]
            assert 0 <= found["checkpoint_seconds_sum", stage] < 60
            assert size == found["checkpoint_bytes_total", stage]
    assert 0 == committed["checkpoint_seconds_count", "read"]


async def test_a_failed_write_publishes_nothing(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any], tmp_path: Path
) -> None:
    """It is work, but there is no checkpoint to have an age."""
    (tmp_path / "file").write_text("")
    client = await seeded(connect, world)
    await client.control("prepare")
    await client.control("commit", checkpoint_dir=str(tmp_path / "file" / "below"))
    found = await scraped(client)

    assert ("checkpoint_age_seconds",) not in found
    assert 1 == found["checkpoint_seconds_count", "write"]
    assert 1 == found["refusals_total", "invalid_checkpoint_state"]


async def test_collections_are_watched_while_the_server_runs(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """From the start of the application to its end."""
    client = await connect(metrics=True)
    callbacks = len(gc.callbacks)
    async with client.app.router.lifespan_context(client.app):
        gc.collect()
        watched = len(gc.callbacks)
        found = await scraped(client)

    assert (callbacks + 1, callbacks) == (watched, len(gc.callbacks))
    assert 1 <= found["gc_pause_seconds_count", "2"]
    assert found["gc_pause_seconds_sum", "2"] > 0


async def test_pauses_go_into_the_bucket_that_holds_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pause equal to a bound counts as within it, as Prometheus has it."""
    clock = iter([0.0, 0.001, 0.0, 2.0])
    monkeypatch.setattr(
        "ipistate.server.operating.collector.perf_counter", lambda: next(clock)
    )
    pauses = Pauses()
    for _ in range(2):
        pauses("start", {"generation": 1})
        pauses("stop", {"generation": 1})

    assert [0, 1, 0, 0, 0, 0, 0, 0, 0, 1] == pauses.counts[1]
    assert [0.0, 2.001, 0.0] == pauses.seconds


CHART = "/update_patient_chart"
WRONG = {"patient_id": "P-7742", "notes": 5}


def counts_of(found: dict[tuple[str, ...], float]) -> list[dict[str, float]]:
    """Return the two counts of strict arguments by tool, zeros left out."""
    names = ("invalid_arguments_total", "strict_refusals_total")
    return [{k[1]: n for k, n in found.items() if k[0] == name} for name in names]


@pytest.mark.parametrize("table", [TOOLS, strict()], ids=["lenient", "strict"])
async def test_what_strict_arguments_refuse_is_counted(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    table: Mapping[str, Any],
) -> None:
    """Off, the calls that they would have refused; on, also those that they did."""
    client = await seeded(connect, world, tools=table)
    good = await client.post(CHART, json={**WRONG, "notes": "Well."})
    for _ in range(2):
        last = await client.post(CHART, json=WRONG)
    await client.post(CHART, json={"patient_id": "P-7742"})
    await client.post("/made_up", json=WRONG)
    invalid, refused = counts_of(await scraped(client))

    assert "Chart updated for patient P-7742." == good.json()["output"]
    assert {"update_patient_chart": 2} == invalid
    is_strict = table is not TOOLS
    assert ({"update_patient_chart": 2} if is_strict else {}) == refused
    assert is_strict == ("(InvalidArguments)" in last.json()["output"])


async def test_a_tool_without_a_usable_schema_breaks_nothing(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """Its calls are served, and counted as calls only."""
    one = TOOLS["update_patient_chart"]
    bad = attrs.evolve(one, parameters=JsonObject({"type": "nonsense"}))
    client = await seeded(connect, world, tools={one.name: bad})
    reply = await client.post(CHART, json={**WRONG, "notes": "Well."})

    assert "Chart updated for patient P-7742." == reply.json()["output"]
    assert [{}, {}] == counts_of(await scraped(client))


async def test_without_the_library_there_is_no_such_count(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Everything else is counted as before."""
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    monkeypatch.setattr("ipistate.server.operating.metrics.find_spec", lambda _: None)
    client = await seeded(connect, world)
    await client.post(CHART, json=WRONG)
    text = (await client.get("/metrics")).text

    assert "ipistate_tool_calls_total" in text
    assert "invalid_arguments" not in text
    assert "strict_refusals" not in text
