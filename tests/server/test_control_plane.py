"""The control plane's routes: the token, bodies, files, and continuing after a restore."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from starlette.datastructures import Secret

from ipistate.protocol.records import EncodedStates, SessionRecord
from ipistate.server import create_app
from ipistate.server.operating.settings import ServerSettings


if TYPE_CHECKING:
    import httpx

    from starlette.applications import Starlette
    from starlette.types import Message
    from tests.server.conftest import Client, Wire


pytestmark = pytest.mark.anyio

CONTROL = "/ng-control/v1/checkpoint"
AUTHORIZED = {"authorization": "Bearer a-token"}
CALL = ("/get_patient_record", {"patient_id": "P-7742"})
SCOPE = [{"rollout_id": "ipi-7", "attempt": 0}]


async def seeded(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any], **settings: Any
) -> Client:
    """Return a client with a tracked session."""
    client = await connect(**settings)
    await client.post("/ng-rollout/ipi-7/seed_session", json={"environment": world})
    return client


async def committed(client: Client, directory: str | Path) -> httpx.Response:
    """Prepare and commit everything into a directory."""
    await client.control("prepare")
    return await client.control("commit", checkpoint_dir=str(directory))


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "a-token",
        "Bearer",
        "Bearer ",
        "Bearer A-TOKEN",
        "bearer a-token",
        "Bearer  a-token",
        "Bearer a-token x",
        b"Bearer \xe9",
    ],
)
@pytest.mark.parametrize("name", ["status", "prepare", "commit", "restore", "resume"])
async def test_only_the_exact_token_is_let_in(
    connect: Callable[..., Awaitable[Client]],
    authorization: str | bytes | None,
    name: str,
) -> None:
    """401 before the body is looked at, the token compared as a whole."""
    client = await connect()
    headers: Any = {} if authorization is None else {"authorization": authorization}
    method = "GET" if name == "status" else "POST"
    reply = await client.request(
        method, f"{CONTROL}/{name}", content=b"not json", headers=headers
    )

    assert 401 == reply.status_code
    assert "unauthorized" == reply.json()["error"]["code"]
    assert "a-token" not in reply.text


async def test_the_token_is_never_shown(
    connect: Callable[..., Awaitable[Client]], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither settings nor logs contain it."""
    caplog.set_level(logging.DEBUG)
    client = await connect()
    await client.control("prepare")
    await client.post(f"{CONTROL}/prepare", headers={"authorization": "Bearer no"})
    shown = repr(ServerSettings(checkpoint_token=Secret("a-token")))

    assert "a-token" not in shown + caplog.text


@pytest.mark.parametrize(
    ("name", "change", "path"),
    [
        ("prepare", {"x": 1}, ["x"]),
        ("prepare", {"deadline_ts": "1"}, ["deadline_ts"]),
        ("prepare", {"deadline_ts": None}, ["deadline_ts"]),
        ("resume", {"stop": True}, ["stop"]),
        ("commit", {}, ["checkpoint_dir"]),
        ("commit", {"checkpoint_dir": 7}, ["checkpoint_dir"]),
        ("commit", {"checkpoint_dir": "d", "episode_ids": {}}, ["episode_ids"]),
        ("commit", {"checkpoint_dir": "d", "stop": 1}, ["stop"]),
        ("restore", {"checkpoint_dir": "d"}, ["episode_ids"]),
        ("restore", {"checkpoint_dir": "d", "episode_ids": None}, ["episode_ids"]),
        (
            "restore",
            {"checkpoint_dir": "d", "episode_ids": [{"rollout_id": "r", "x": 1}]},
            ["episode_ids", 0, "x"],
        ),
    ],
)
async def test_bodies_are_strict(
    connect: Callable[..., Awaitable[Client]],
    name: str,
    change: dict[str, Any],
    path: list[int | str],
) -> None:
    """422 with the path; nothing happens."""
    client = await connect()
    reply = await client.control(name, **change)

    assert 422 == reply.status_code
    assert ["body", *path] in [found["loc"] for found in reply.json()["detail"]]
    assert "idle" == (await client.status())["phase"]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"deadline_ts": NaN}', b"{"])
async def test_a_body_that_is_no_object_is_refused(
    connect: Callable[..., Awaitable[Client]], body: bytes
) -> None:
    """422, as on the data plane."""
    client = await connect()
    headers = {**AUTHORIZED, "content-type": "application/json"}
    reply = await client.post(f"{CONTROL}/prepare", content=body, headers=headers)

    assert 422 == reply.status_code


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "..", "", "c" * 129, "c\n", "c\u0000", "ü"]
)
async def test_b50_a_checkpoint_id_is_a_safe_name(
    connect: Callable[..., Awaitable[Client]], tmp_path: Path, name: str
) -> None:
    """Refused before any file is touched."""
    client = await connect()
    for operation in ("prepare", "commit"):
        members: Any = (
            {"checkpoint_dir": str(tmp_path)} if operation == "commit" else {}
        )
        reply = await client.control(operation, name, **members)

        assert 422 == reply.status_code
    assert [] == list(tmp_path.iterdir())


async def test_the_worked_example(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    tmp_path: Path,
    verify_body: dict[str, Any],
) -> None:
    """Appendix C, line by line: seed, call, commit, crash, restore, wait, go on."""
    before = await seeded(connect, world)
    cookies = before.cookies
    update = {"patient_id": "P-7742", "notes": "Reviewed."}
    await before.post("/update_patient_chart", json=update)
    record = await before.post(CALL[0], json=CALL[1])
    prepared = await before.control("prepare", "step-120")
    commit = await before.control(
        "commit", "step-120", checkpoint_dir=str(tmp_path), episode_ids=SCOPE
    )
    resumed = await before.control("resume", "step-120")
    after = await connect(cookies=cookies)
    restored = await after.control(
        "restore", "restore-1", checkpoint_dir=str(tmp_path), episode_ids=SCOPE
    )
    call = asyncio.ensure_future(after.post(CALL[0], json=CALL[1]))
    await asyncio.sleep(0)
    reopened = await after.control("resume", "restore-1")
    continued = await call
    verified = await after.post("/ng-rollout/ipi-7-a1/verify", json=verify_body)
    late = await after.control("commit", "step-120", checkpoint_dir=str(tmp_path))
    stale = await after.control("prepare", "restore-1")

    assert prepared.json() == {
        "phase": "prepared",
        "report": {
            "ready": True,
            "blockers": [],
            "blocker_count": 0,
            "counts": {"inflight": 0, "sessions": 1},
            "restarts": [],
        },
    }
    assert ["ipi-7"] == commit.json()["episode_ids"]
    assert 1 == commit.json()["manifest"]["record_count"]
    assert '{"phase":"idle","idempotent":false}' == resumed.text == reopened.text
    assert restored.json() == {
        "phase": "restored",
        "source_checkpoint_id": "step-120",
        "restored": ["ipi-7-a1"],
    }
    assert record.content == continued.content
    assert 200 == verified.status_code
    assert (409, "invalid_phase") == (
        late.status_code,
        late.json()["error"]["code"],
    )
    assert (409, "stale_checkpoint") == (
        stale.status_code,
        stale.json()["error"]["code"],
    )
    assert {"inflight": 0, "sessions": 0} == await after.counts()


async def test_a_restored_server_shares_nothing_with_the_first(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any], tmp_path: Path
) -> None:
    """What either does after the checkpoint does not reach the other."""
    before = await seeded(connect, world)
    await committed(before, tmp_path)
    await before.control("resume")
    after = await connect(cookies=before.cookies)
    await after.control("restore", checkpoint_dir=str(tmp_path), episode_ids=SCOPE)
    await after.control("resume")
    update = {"patient_id": "P-7742", "notes": "Only here."}
    await before.post("/update_patient_chart", json=update)
    here, there = [await c.post(CALL[0], json=CALL[1]) for c in (before, after)]

    assert "Only here." in here.text
    assert "Only here." not in there.text


@pytest.mark.parametrize(
    "directory", ["nowhere", "a\u0000b", "\ud83d", "x" * 5000, "file/below"]
)
async def test_an_unusable_directory_is_refused(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    tmp_path: Path,
    directory: str,
) -> None:
    """422, and the server goes on."""
    (tmp_path / "file").write_text("")
    client = await seeded(connect, world)
    named = f"{tmp_path}/{directory}"
    restore = {"checkpoint_dir": named, "episode_ids": SCOPE}
    headers = {**AUTHORIZED, "content-type": "application/json"}
    base = {"checkpoint_id": "r", "deadline_ts": time.time() + 20}
    reply = await client.post(
        f"{CONTROL}/restore",
        content=json.dumps({**base, **restore}),
        headers=headers,
    )

    assert (422, "invalid_checkpoint_state") == (
        reply.status_code,
        reply.json()["error"]["code"],
    )
    assert 200 == (await client.post(CALL[0], json=CALL[1])).status_code


async def test_a_failed_commit_can_be_given_up(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any], tmp_path: Path
) -> None:
    """A directory that cannot be written is 422, and resume reopens the server."""
    (tmp_path / "file").write_text("")
    client = await seeded(connect, world)
    failed = await committed(client, tmp_path / "file" / "below")
    resumed = await client.control("resume")

    assert (422, 200) == (failed.status_code, resumed.status_code)
    assert 200 == (await client.post(CALL[0], json=CALL[1])).status_code


@pytest.mark.parametrize("name", ["../out", "/etc", "link/x", "a/../../out"])
async def test_directories_stay_under_the_root(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    tmp_path: Path,
    name: str,
) -> None:
    """Neither dots nor links nor absolute paths lead out of the checkpoint root."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)
    client = await seeded(connect, world, checkpoint_root=root)
    refused = await committed(client, name)

    assert 422 == refused.status_code
    assert "checkpoint root" in refused.json()["error"]["detail"]
    assert [root] == list(tmp_path.iterdir())


@pytest.mark.parametrize("below", ["gym", "gym/resources", "gym/resources/ipi"])
async def test_b12_no_link_below_the_directory_leads_out(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    tmp_path: Path,
    below: str,
) -> None:
    """What a participant makes in the directory is looked at as well."""
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    link = root / "step-1" / below
    link.parent.mkdir(parents=True)
    elsewhere.mkdir()
    link.symlink_to(elsewhere)
    client = await seeded(connect, world, checkpoint_root=root)
    refused = await committed(client, "step-1")

    assert 422 == refused.status_code
    assert "checkpoint root" in refused.json()["error"]["detail"]
    assert [] == list(elsewhere.iterdir())


@pytest.mark.parametrize("name", ["manifest.json", "records"])
async def test_b12_no_file_that_leads_out_is_read(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    tmp_path: Path,
    name: str,
) -> None:
    """A restore takes neither manifest nor records from elsewhere."""
    root = tmp_path / "root"
    (root / "step-1").mkdir(parents=True)
    before = await seeded(connect, world, checkpoint_root=root)
    await committed(before, "step-1")
    place = root / "step-1/gym/resources/ipi"
    (file,) = place.glob(f"{name}*")
    file.rename(tmp_path / file.name)
    file.symlink_to(tmp_path / file.name)
    after = await connect(checkpoint_root=root)
    given: Any = {"checkpoint_dir": "step-1", "episode_ids": SCOPE}
    refused = await after.control("restore", **given)

    assert 422 == refused.status_code
    assert "checkpoint root" in refused.json()["error"]["detail"]


async def test_a16_a_refused_directory_binds_no_checkpoint(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any], tmp_path: Path
) -> None:
    """After a commit outside of the root the correct one is made."""
    client = await seeded(connect, world, checkpoint_root=tmp_path)
    refused = await committed(client, "/elsewhere")
    reply = await client.control("commit", checkpoint_dir="step-1")

    assert (422, 200) == (refused.status_code, reply.status_code)


@pytest.mark.parametrize("absolute", [True, False])
async def test_directories_under_the_root_are_made(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    tmp_path: Path,
    absolute: bool,
) -> None:
    """Absolute ones, and relative ones below the root."""
    client = await seeded(connect, world, checkpoint_root=tmp_path)
    name = tmp_path / "step-1" if absolute else "step-1"
    reply = await committed(client, name)

    assert 200 == reply.status_code
    assert (tmp_path / "step-1/gym/resources/ipi/manifest.json").exists()


async def test_a_caller_of_prepare_may_leave(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """Its call is dropped; another one can prepare."""
    client = await seeded(connect, world)
    blocking = wire(client.app, "/no_such_tool", None, slow=True)
    await settled()
    app = client.app
    body = {"checkpoint_id": "c-1", "deadline_ts": time.time() + 60}
    prepare = wire(app, f"{CONTROL}/prepare", json.dumps(body).encode())
    await prepare.task
    waiting = wire(app, f"{CONTROL}/prepare", None, headers=AUTHORIZED)
    waiting.give(json.dumps(body).encode())
    await settled()
    waiting.hang_up()
    await waiting.task
    blocking.give(b"{}")
    await blocking.task

    assert 401 == prepare.status
    assert [] == waiting.sent
    assert 200 == (await client.control("resume")).status_code


async def test_a_lease_reopens_a_forgotten_checkpoint(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """The timer fires by itself after deadline and grace."""
    client = await seeded(connect, world, lease_grace_seconds=0.05)
    await client.control("prepare", seconds=0.05)
    reply = await client.post(CALL[0], json=CALL[1])

    assert 200 == reply.status_code
    assert "idle" == (await client.status())["phase"]


@pytest.mark.parametrize(
    ("members", "error"),
    [
        ({"checkpoint_token": "text"}, TypeError),
        ({"checkpoint_token": Secret("")}, ValueError),
        ({"checkpoint_token": Secret("a\n")}, ValueError),
        ({"cookie_secret": Secret("é")}, ValueError),
        ({"instance_name": "../x"}, ValueError),
        ({"instance_name": ""}, ValueError),
        ({"max_body_bytes": 0}, ValueError),
        ({"lease_grace_seconds": 0}, ValueError),
        ({"tools": {"verify": None}}, ValueError),
        ({"tools": {"a/b": None}}, ValueError),
        ({"tools": {"": None}}, ValueError),
    ],
)
async def test_unusable_settings_are_refused(
    members: dict[str, Any], error: type[Exception]
) -> None:
    """A server that could not work or would show its token does not start."""
    with pytest.raises(error):
        ServerSettings(**members)


async def test_a_resume_stops_a_write_that_outlives_its_deadline(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The commit gives up at its deadline; after the resume no manifest can appear."""
    client = await seeded(connect, world)
    going_on = threading.Event()
    lines = EncodedStates.lines

    def slow(
        self: EncodedStates, records: tuple[SessionRecord, ...]
    ) -> Iterator[bytes]:
        going_on.wait(20)
        yield from lines(self, records)

    monkeypatch.setattr(EncodedStates, "lines", slow)
    await client.control("prepare")
    late = await client.control("commit", seconds=0.05, checkpoint_dir=str(tmp_path))
    resumed = await client.control("resume")
    going_on.set()
    monkeypatch.undo()
    await client.control("prepare", "c-2")
    again = await client.control("commit", "c-2", checkpoint_dir=str(tmp_path))

    assert (409, "deadline_exceeded") == (
        late.status_code,
        late.json()["error"]["code"],
    )
    assert (200, 200) == (resumed.status_code, again.status_code)
    assert "c-2" == again.json()["manifest"]["checkpoint_id"]


async def test_a_fault_of_our_own_ends_a_commit(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever a thread raises becomes a refusal and a log entry, never a hang."""
    client = await seeded(connect, world)

    def broken(*_: tuple[SessionRecord, ...] | EncodedStates) -> NoReturn:
        raise RuntimeError("boom")

    monkeypatch.setattr(EncodedStates, "lines", broken)
    failed = await committed(client, tmp_path)

    assert (422, "RuntimeError: boom") == (
        failed.status_code,
        failed.json()["error"]["detail"],
    )
    assert "work on checkpoint files failed" in caplog.text


async def test_a_name_that_no_system_knows_is_not_under_the_root(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any], tmp_path: Path
) -> None:
    """A NUL in the directory is refused like a way out."""
    client = await seeded(connect, world, checkpoint_root=tmp_path)
    refused = await committed(client, "a\u0000b")

    assert (422, []) == (refused.status_code, list(tmp_path.iterdir()))


async def test_connections_that_are_no_requests_pass_the_layers(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """A lifespan starts and ends; a websocket is closed, for there are none."""
    client = await connect()
    sent: list[str] = []

    async def send(message: Message) -> None:
        sent.append(message["type"])

    inbox: Iterator[Message] = iter(
        [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    )

    async def receive() -> Message:
        return next(inbox)

    await client.app({"type": "lifespan"}, receive, send)
    websocket = {"type": "websocket", "path": "/x", "headers": [], "root_path": ""}
    await client.app(websocket, receive, send)

    assert [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
        "websocket.close",
    ] == sent


class Clocks:
    """A server's two clocks, set by hand."""

    def __init__(self) -> None:
        """Start at a round time of day."""
        self.wall, self.steady = 1_790_000_000.0, 5.0

    def pass_by(self, seconds: float) -> None:
        """Let time go on."""
        self.wall += seconds
        self.steady += seconds

    def app(self) -> Starlette:
        """Return a server that lives by these clocks."""
        settings = ServerSettings(
            checkpoint_token=Secret("a-token"), lease_grace_seconds=10
        )
        return create_app(settings, clock=lambda: self.wall, steady=lambda: self.steady)


@pytest.mark.parametrize("hour", [-3600.0, 3600.0])
async def test_b5_a_step_of_the_clock_neither_ends_a_lease_nor_prolongs_it(
    connect: Callable[..., Awaitable[Client]], hour: float
) -> None:
    """A lease lasts as long as it was promised, whatever the time of day does."""
    clocks = Clocks()
    client = await connect(clocks.app())
    given: Any = {"checkpoint_id": "c-1", "deadline_ts": clocks.wall + 60}
    await client.control("prepare", **given)
    clocks.wall += hour
    clocks.pass_by(65)
    kept = await client.control("renew", **given)
    clocks.pass_by(10)
    ended = await client.control("renew", **given)

    assert (200, 409) == (kept.status_code, ended.status_code)
    assert "idle" == (await client.status())["phase"]


async def test_b5_a_corrected_clock_counts_once_nothing_is_open(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """The next checkpoint's deadlines are read by the corrected time."""
    clocks = Clocks()
    client = await connect(clocks.app())
    first: Any = {"checkpoint_id": "c-1", "deadline_ts": clocks.wall + 60}
    await client.control("prepare", **first)
    clocks.wall += 3600
    during = (await client.control("renew", **first)).headers["x-ipistate-time"]
    after = (await client.control("resume", **first)).headers["x-ipistate-time"]

    assert 3600.0 == float(after) - float(during)


@pytest.mark.parametrize("deadline", [1_790_000_060_000, 1e300, 10**30])
async def test_a19_a_deadline_that_is_a_mistake_is_refused(
    connect: Callable[..., Awaitable[Client]], deadline: float
) -> None:
    """Milliseconds would give a lease for ages; 422 says what is meant."""
    clocks = Clocks()
    client = await connect(clocks.app())
    body: Any = {"checkpoint_id": "c-1", "deadline_ts": deadline}
    reply = await client.control("prepare", **body)

    assert 422 == reply.status_code
    assert "deadline_too_far" in reply.text
    assert "milliseconds" in reply.text
    assert "idle" == (await client.status())["phase"]


async def test_a19_the_farthest_deadline_is_seven_days_ahead(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """The bound itself is allowed."""
    clocks = Clocks()
    client = await connect(clocks.app())
    week = clocks.wall + 7 * 24 * 60 * 60
    reply = await client.control("prepare", checkpoint_id="c-1", deadline_ts=week)

    assert 200 == reply.status_code
