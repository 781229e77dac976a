"""The conformance checklist over HTTP: each line of appendix D, by number."""

from __future__ import annotations

import asyncio
import json
import threading
import time

from collections.abc import Awaitable, Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from ipistate.protocol.records import EncodedStates, SessionRecord
from ipistate.scoring.verifier import Verdict
from ipistate.scoring.verify_request import VerifyRequest
from ipistate.storage.checkpoint_directory import CheckpointDirectory


if TYPE_CHECKING:
    import httpx

    from starlette.applications import Starlette
    from tests.server.conftest import Client, Wire


pytestmark = pytest.mark.anyio

CONTROL = "/ng-control/v1/checkpoint"
NAMES = ("prepare", "renew", "commit", "restore", "resume", "retire", "forget")
COOKIE = "IPIResourcesServer___ipi"
UPDATE = "/update_patient_chart"
RECORD = ("/get_patient_record", {"patient_id": "P-7742"})
CLOSE = (
    "/close_session",
    {"resources_session_id": "x", "episode_id": {"rollout_id": "r"}},
)


def named(*keys: str) -> list[dict[str, int | str]]:
    """Return the episode ids with these rollout ids, all of attempt 0."""
    return [{"rollout_id": key, "attempt": 0} for key in keys]


def code(reply: httpx.Response) -> tuple[int, str]:
    """Return a reply's status and the code of its refusal."""
    return reply.status_code, reply.json().get("error", {}).get("code")


def notes(text: str = "Reviewed.") -> dict[str, str]:
    """Return the body of a call that changes the chart."""
    return {"patient_id": "P-7742", "notes": text}


@pytest.fixture
def seeded(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> Callable[..., Awaitable[Client]]:
    """Return a maker of clients of one server, each with a tracked session."""

    async def make(
        key: str = "ipi-7", app: Starlette | None = None, **settings: float
    ) -> Client:
        client = await connect(app, **settings)
        path = f"/ng-rollout/{key}/seed_session"
        assert (await client.post(path, json={"environment": world})).status_code == 200
        return client

    return make


async def committed(
    client: Client, directory: Path, checkpoint_id: str = "c-1", **members: Any
) -> httpx.Response:
    """Prepare and commit."""
    await client.control("prepare", checkpoint_id)
    return await client.control(
        "commit", checkpoint_id, checkpoint_dir=str(directory), **members
    )


async def test_d01_without_checkpointing_nothing_of_it_is_there(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """Control routes absent (404) and no checkpoint headers with checkpointing off."""
    client = await connect(checkpoint_token=None)
    seed = await client.post(
        "/ng-rollout/ipi-7/seed_session", json={"environment": world}
    )
    replies = [await client.control(name) for name in NAMES]

    assert {404} == {reply.status_code for reply in replies}
    assert 404 == (await client.get(f"{CONTROL}/status")).status_code
    assert [] == [name for name in seed.headers if name.startswith("x-ng-checkpoint")]


@pytest.mark.parametrize("token", [None, "Bearer", "Bearer A-token", "Bearer a-token "])
async def test_d02_all_control_routes_need_the_exact_token(
    connect: Callable[..., Awaitable[Client]], wire: type[Wire], token: str | None
) -> None:
    """All control routes refuse without the exact bearer token."""
    client = await connect()
    headers = {} if token is None else {"authorization": token}
    for name in NAMES:
        call = wire(client.app, f"{CONTROL}/{name}", b"{}", headers=headers)
        await call.task

        assert (401, "unauthorized") == (call.status, call.document["error"]["code"])
    status = await client.get(f"{CONTROL}/status", headers={"x": "y"})
    assert 401 == status.status_code


async def test_d03_bodies_are_closed_and_stop_is_accepted(
    seeded: Callable[..., Awaitable[Client]], tmp_path: Path
) -> None:
    """Unknown body fields: 422; `stop` on commit accepted."""
    client = await seeded()
    replies = [await client.control(name, unknown=1) for name in NAMES]
    commit = await committed(client, tmp_path, stop=True)

    assert {422} == {reply.status_code for reply in replies}
    assert 200 == commit.status_code


async def test_d04_a_prepare_waits_and_can_be_repeated(
    seeded: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """With a request in flight: `preparing` at the deadline, closed; then ready."""
    client = await seeded()
    running = wire(client.app, "/no_such_tool", None, slow=True)
    await settled()
    early = await client.control("prepare", seconds=0.02)
    waiting = wire(client.app, "/no_such_tool", b"{}")
    await settled()
    closed = waiting.status
    running.give(b"{}")
    await running.task
    late = await client.control("prepare")
    await client.control("resume")
    await waiting.task

    assert ("preparing", False) == (
        early.json()["phase"],
        early.json()["report"]["ready"],
    )
    assert 1 == early.json()["report"]["counts"]["inflight"]
    assert closed is None
    assert ("prepared", True) == (late.json()["phase"], late.json()["report"]["ready"])


async def test_d05_a_resume_ends_a_waiting_prepare(
    seeded: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """The prepare returns phase `idle` promptly."""
    client = await seeded()
    running = wire(client.app, "/no_such_tool", None, slow=True)
    await settled()
    prepare = asyncio.ensure_future(client.control("prepare", seconds=600))
    await settled()
    await client.control("resume")
    reply = await prepare
    running.give(b"{}")
    await running.task

    assert (200, "idle") == (reply.status_code, reply.json()["phase"])


@pytest.mark.parametrize("phase", ["prepared", "committed", "restored"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        RECORD,
        ("/seed_session", {"environment": {}}),
        CLOSE,
        ("/aggregate_metrics", {"verify_responses": []}),
    ],
)
async def test_d06_posts_wait_while_a_checkpoint_is_open(
    connect: Callable[..., Awaitable[Client]],
    seeded: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
    tmp_path: Path,
    phase: str,
    path: str,
    body: dict[str, Any],
) -> None:
    """No answer until resume, not counted."""
    client = await seeded()
    await client.control("prepare")
    if phase != "prepared":
        await client.control("commit", checkpoint_dir=str(tmp_path))
    if phase == "restored":
        client = await connect(cookies=client.cookies)
        scope = named("ipi-7")
        await client.control("restore", checkpoint_dir=str(tmp_path), episode_ids=scope)
    cookie = f"{COOKIE}={client.cookies[COOKIE]}"
    request = wire(client.app, path, json.dumps(body).encode(), cookie=cookie)
    await settled()
    before, counts = request.status, await client.counts()
    await client.control("resume")
    await request.task

    assert (None, 0, 200) == (before, counts["inflight"], request.status)


async def test_d07_gets_answer_in_every_phase(
    connect: Callable[..., Awaitable[Client]],
    seeded: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
    tmp_path: Path,
) -> None:
    """Also while a prepare waits for requests in flight."""
    client = await seeded(metrics=True)
    fresh = await connect(metrics=True)
    running = wire(client.app, "/no_such_tool", None, slow=True)
    await settled()
    seen: list[str] = []

    async def look(asked: Client) -> None:
        replies = [await asked.get(path) for path in ("/", "/health", "/metrics")]
        assert {200} == {reply.status_code for reply in replies}
        seen.append((await asked.status())["phase"])

    await look(client)
    await client.control("prepare", seconds=0)
    await look(client)
    running.give(b"{}")
    await running.task
    await client.control("prepare")
    await look(client)
    await client.control("commit", checkpoint_dir=str(tmp_path))
    await look(client)
    await fresh.control("restore", checkpoint_dir=str(tmp_path), episode_ids=[])
    await look(fresh)

    assert ["idle", "preparing", "prepared", "committed", "restored"] == seen


async def test_d08_equal_calls_have_equal_replies(
    connect: Callable[..., Awaitable[Client]],
    seeded: Callable[..., Awaitable[Client]],
    tmp_path: Path,
) -> None:
    """Prepare, commit, restore, resume; commit and restore with others: 409."""
    client = await seeded()
    fresh = await connect()
    where: dict[str, Any] = {
        "checkpoint_dir": str(tmp_path),
        "episode_ids": named("ipi-7"),
    }
    calls: tuple[tuple[Client, str, dict[str, Any]], ...] = (
        (client, "prepare", {}),
        (client, "commit", where),
        (client, "prepare", {}),
        (client, "resume", {}),
        (fresh, "restore", where),
    )
    others: tuple[dict[str, Any], ...] = (
        {"episode_ids": []},
        {"checkpoint_dir": f"{tmp_path}/x"},
    )
    for caller, name, members in calls:
        first = await caller.control(name, **members)
        again = await caller.control(name, **members, seconds=40)
        repeats = {**first.json(), "idempotent": True} if name == "resume" else None

        assert 200 == first.status_code
        assert (repeats or first.json()) == again.json()
        if members:
            for other in others:
                refused = await caller.control(name, **{**members, **other})

                assert (409, "checkpoint_conflict") == code(refused)


async def test_d09_resumed_ids_are_fenced(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """A resume while idle fences; the 65th resumed id evicts the first."""
    client = await connect()
    await client.control("resume", "first")
    fenced = await client.control("prepare", "first")
    for number in range(64):
        await client.control("resume", f"c-{number}")
    evicted = await client.control("prepare", "first")
    await client.control("resume", "first")

    assert (409, "stale_checkpoint") == code(fenced)
    assert 200 == evicted.status_code
    assert (409, "stale_checkpoint") == code(await client.control("prepare", "c-63"))


async def test_d10_a_lease_runs_out(
    seeded: Callable[..., Awaitable[Client]], wire: type[Wire]
) -> None:
    """No call for deadline + grace: idle, id fenced, waiting requests answered."""
    client = await seeded(lease_grace_seconds=0.03)
    await client.control("prepare", seconds=0.03)
    cookie = f"{COOKIE}={client.cookies[COOKIE]}"
    waiting = wire(client.app, "/no_such_tool", b"{}", cookie=cookie)
    await waiting.task

    assert 200 == waiting.status
    assert "idle" == (await client.status())["phase"]
    assert (await client.status())["lease_expires_at"] is None
    assert (409, "stale_checkpoint") == code(await client.control("prepare"))


async def test_d11_one_export_and_one_write(
    seeded: Callable[..., Awaitable[Client]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A failed write is retried with the same records; a slow one is joined."""
    client = await seeded()
    going_on, exports, lines = threading.Event(), [], EncodedStates.lines

    def slow(
        self: EncodedStates, records: tuple[SessionRecord, ...]
    ) -> Iterator[bytes]:
        exports.append(records)
        if len(exports) == 1:
            raise OSError(28, "No space left on device")
        going_on.wait(20)
        yield from lines(self, records)

    monkeypatch.setattr(EncodedStates, "lines", slow)
    failed = await committed(client, tmp_path)
    members: dict[str, Any] = {"checkpoint_dir": str(tmp_path)}
    late = await client.control("commit", seconds=0.05, **members)
    joined = asyncio.ensure_future(client.control("commit", **members))
    await asyncio.sleep(0)
    going_on.set()
    reply = await joined

    assert (422, "invalid_checkpoint_state") == code(failed)
    assert (409, "deadline_exceeded") == code(late)
    assert (200, 1) == (reply.status_code, reply.json()["manifest"]["record_count"])
    assert 2 == len(exports)
    assert exports[0] is exports[1]


async def test_d12_after_a_resume_no_manifest_appears(
    seeded: Callable[..., Awaitable[Client]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even if the writer was slow."""
    client = await seeded()
    going_on, ended = threading.Event(), threading.Event()
    write = CheckpointDirectory.write

    def slow(*given: Any) -> Any:
        going_on.wait(20)
        try:
            return write(*given)
        finally:
            ended.set()

    monkeypatch.setattr(CheckpointDirectory, "write", slow)
    await client.control("prepare")
    await client.control("commit", seconds=0.05, checkpoint_dir=str(tmp_path))
    resumed = await client.control("resume")
    going_on.set()
    await asyncio.to_thread(ended.wait, 20)
    monkeypatch.undo()
    again = await committed(client, tmp_path / "other", "c-2")

    assert (200, 200) == (resumed.status_code, again.status_code)
    assert [] == list((tmp_path / "gym").rglob("manifest.json"))


async def test_d13_a_used_directory_is_refused(
    seeded: Callable[..., Awaitable[Client]], tmp_path: Path
) -> None:
    """422 and the old manifest untouched."""
    client = await seeded()
    await committed(client, tmp_path)
    await client.control("resume")
    (manifest,) = tmp_path.rglob("manifest.json")
    before = manifest.read_bytes()
    await client.post(UPDATE, json=notes())
    refused = await committed(client, tmp_path, "c-2")

    assert (422, "invalid_checkpoint_state") == code(refused)
    assert before == manifest.read_bytes()


async def test_d14_the_files_are_as_specified(
    connect: Callable[..., Awaitable[Client]], tmp_path: Path
) -> None:
    """Key order kept, one line each; manifest exact bytes; digest name; mode."""
    client = await connect()
    text = '{"z":1,"a":{"2":"\\u00e9","1":[1.0,1e-07,-0.0]},"messages":[]}'
    for key in ("ipi-7", "ipi-9-a1"):
        await (await connect(client.app)).post(
            f"/ng-rollout/{key}/seed_session",
            content=f'{{"environment":{text}}}',
            headers={"content-type": "application/json"},
        )
    reply = (await committed(client, tmp_path, "step-120")).json()["manifest"]
    folder = tmp_path / "gym" / "resources" / "ipi"
    records = folder / reply["records_file"]
    lines = records.read_bytes().split(b"\n")
    states = [
        json.dumps(json.loads(line)["state"]["environment"]) for line in lines[:-1]
    ]
    digest = sha256(records.read_bytes()).hexdigest()
    manifest = json.dumps(reply, sort_keys=True, indent=1).encode()

    assert [json.dumps(json.loads(text))] * 2 == states
    assert b"" == lines[-1]
    assert f"records-{digest}.jsonl" == reply["records_file"]
    assert manifest == (folder / "manifest.json").read_bytes()
    assert {"manifest.json", records.name} == {path.name for path in folder.iterdir()}
    assert 0o600 == records.stat().st_mode & 0o777


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder, _: (folder / "manifest.json").unlink(),
        lambda folder, _: (folder / "manifest.json").write_text("{"),
        lambda folder, manifest: (folder / "manifest.json").write_text(
            json.dumps({**manifest, "schema_version": 2})
        ),
        lambda folder, manifest: (folder / "manifest.json").write_text(
            json.dumps({**manifest, "instance": "other"})
        ),
        lambda folder, manifest: (folder / "manifest.json").write_text(
            json.dumps({**manifest, "records_file": "../records.jsonl"})
        ),
        lambda folder, manifest: (folder / "manifest.json").write_text(
            json.dumps({**manifest, "record_count": 2})
        ),
        lambda folder, manifest: (folder / manifest["records_file"]).unlink(),
        lambda folder, manifest: (folder / manifest["records_file"]).write_text("{}\n"),
    ],
)
async def test_d15_a_restore_checks_everything(
    connect: Callable[..., Awaitable[Client]],
    seeded: Callable[..., Awaitable[Client]],
    tmp_path: Path,
    damage: Callable[..., int | None],
) -> None:
    """Each reader check of 4.6: 422, and the fresh process stays idle and usable."""
    client = await seeded()
    manifest = (await committed(client, tmp_path)).json()["manifest"]
    damage(tmp_path / "gym" / "resources" / "ipi", manifest)
    fresh = await connect()
    refused = await fresh.control(
        "restore", checkpoint_dir=str(tmp_path), episode_ids=named("ipi-7")
    )

    assert (422, "invalid_checkpoint_state") == code(refused)
    assert "idle" == (await fresh.status())["phase"]


async def test_d15_a_restore_takes_the_scope_into_a_fresh_process(
    connect: Callable[..., Awaitable[Client]],
    seeded: Callable[..., Awaitable[Client]],
    tmp_path: Path,
) -> None:
    """Scope filter; next attempt; refused in a process with sessions."""
    client = await seeded()
    await seeded("ipi-8", client.app)
    await committed(client, tmp_path)
    where: dict[str, Any] = {
        "checkpoint_dir": str(tmp_path),
        "episode_ids": named("ipi-8", "ipi-99"),
    }
    used = await seeded("ipi-1")
    refused = await used.control("restore", **where)
    fresh = await connect()
    restored = await fresh.control("restore", "r-1", **where)

    assert (409, "checkpoint_error") == code(refused)
    assert ["ipi-8-a1"] == restored.json()["restored"]
    assert 1 == (await fresh.counts())["sessions"]


async def test_d16_an_invalid_state_installs_nothing(
    connect: Callable[..., Awaitable[Client]],
    seeded: Callable[..., Awaitable[Client]],
    tmp_path: Path,
) -> None:
    """Phase idle, server usable, restore repeatable."""
    client = await seeded()
    await seeded("ipi-8", client.app)
    manifest = (await committed(client, tmp_path)).json()["manifest"]
    folder = tmp_path / "gym" / "resources" / "ipi"
    records = folder / manifest["records_file"]
    whole = records.read_bytes()

    def publish(data: bytes) -> None:
        digest = sha256(data).hexdigest()
        changed = {"records_sha256": digest, "records_file": f"records-{digest}.jsonl"}
        (folder / changed["records_file"]).write_bytes(data)
        (folder / "manifest.json").write_text(json.dumps({**manifest, **changed}))

    head, _, last = whole.rstrip(b"\n").rpartition(b"\n")
    publish(
        head
        + b"\n"
        + last.replace(b'"environment":{', b'"x":1,"environment":{')
        + b"\n"
    )
    fresh = await connect(cookies=client.cookies)
    scope: dict[str, Any] = {
        "checkpoint_dir": str(tmp_path),
        "episode_ids": named("ipi-7", "ipi-8"),
    }
    refused = await fresh.control("restore", **scope)
    after = (await fresh.status())["phase"], (await fresh.counts())["sessions"]
    usable = await fresh.post(*RECORD[:1], json=RECORD[1])
    publish(whole)
    restored = await fresh.control("restore", **scope)

    assert (422, "invalid_checkpoint_state") == code(refused)
    assert ("idle", 0) == after
    assert 400 == usable.status_code
    assert ["ipi-7-a1", "ipi-8-a1"] == restored.json()["restored"]


async def test_d17_a_cookie_from_before_the_crash_goes_on(
    connect: Callable[..., Awaitable[Client]],
    seeded: Callable[..., Awaitable[Client]],
    tmp_path: Path,
    verify_body: dict[str, Any],
) -> None:
    """Tool outputs and verify equal an uninterrupted run."""
    client = await seeded()
    whole = await seeded()
    for one in (client, whole):
        await one.post(UPDATE, json=notes())
    await committed(client, tmp_path)
    fresh = await connect(cookies=client.cookies)
    scope = named("ipi-7")
    await fresh.control("restore", checkpoint_dir=str(tmp_path), episode_ids=scope)
    await fresh.control("resume")
    steps = [(UPDATE, notes("Again.")), RECORD, ("/verify", verify_body)]
    bodies = [
        [(await one.post(path, json=body)).content for path, body in steps]
        for one in (fresh, whole)
    ]

    assert bodies[0] == bodies[1]


async def test_d18_unclaimed_sessions_follow_the_scope(
    connect: Callable[..., Awaitable[Client]],
    seeded: Callable[..., Awaitable[Client]],
    tmp_path: Path,
) -> None:
    """Exported by the next commit if in scope, as attempt N+1; deleted otherwise."""
    client = await seeded()
    other = await seeded("ipi-8", client.app)
    await committed(client, tmp_path / "1")
    fresh = await connect(cookies=other.cookies)
    scope = named("ipi-7", "ipi-8")
    await fresh.control(
        "restore", "r", checkpoint_dir=f"{tmp_path}/1", episode_ids=scope
    )
    await fresh.control("resume", "r")
    next_scope = [{"rollout_id": "ipi-7", "attempt": 1}]
    second = await committed(fresh, tmp_path / "2", "c-2", episode_ids=next_scope)
    counts = await fresh.counts()
    await fresh.control("resume", "c-2")
    gone = await fresh.post(RECORD[0], json=RECORD[1])
    again = await fresh.post(
        "/ng-rollout/ipi-8-a1/seed_session", json={"environment": {}}
    )

    assert ["ipi-7-a1"] == second.json()["episode_ids"]
    assert 1 == counts["sessions"]
    assert (400, 200) == (gone.status_code, again.status_code)
    assert 0 == (await fresh.status())["retired_rollouts"]


async def test_d19_a_failed_verify_leaves_the_checkpoint(
    seeded: Callable[..., Awaitable[Client]],
    tmp_path: Path,
    verify_body: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The session is left out of the next commit, which succeeds."""
    client = await seeded()
    await seeded("ipi-8", client.app)

    def fail(*_: Verdict | VerifyRequest) -> NoReturn:
        raise RuntimeError("boom")

    monkeypatch.setattr("ipistate.server.live.scoring.verify_reply", fail)
    failed = await client.post("/verify", json=verify_body)
    tracked = (await client.counts())["sessions"]
    commit = await committed(client, tmp_path)

    assert (500, 2) == (failed.status_code, tracked)
    assert (200, ["ipi-8"]) == (commit.status_code, commit.json()["episode_ids"])
    assert 1 == (await client.counts())["sessions"]


async def test_d20_a_retired_attempt_is_refused(
    seeded: Callable[..., Awaitable[Client]],
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    verify_body: dict[str, Any],
) -> None:
    """409 with and without prefix; close still 200; next attempt works; forget lifts."""
    client = await seeded()
    other = await seeded("ipi-8", client.app)
    retired = await client.control("retire", episode_ids=named("ipi-7"))
    calls = [
        (RECORD[0], RECORD[1]),
        (f"/ng-rollout/ipi-7{RECORD[0]}", RECORD[1]),
        ("/verify", verify_body),
        ("/seed_session", {"environment": world}),
        ("/ng-rollout/ipi-7/seed_session", {"environment": world}),
    ]
    refused = [code(await client.post(path, json=body)) for path, body in calls]
    stranger = await connect(client.app)
    refused.append(code(await stranger.post("/ng-rollout/ipi-7/no_such_tool", json={})))
    closed = await client.post(CLOSE[0], json=CLOSE[1])
    status = await client.status()
    after = await seeded("ipi-7-a1", client.app)
    forgotten = await client.control("forget", rollout_ids=["ipi-7"])
    again = await seeded("ipi-7", client.app)

    assert {"retired": ["ipi-7"]} == retired.json()
    assert {(409, "stale_attempt")} == set(refused)
    assert 200 == closed.status_code
    assert (1, 1) == (status["retired_rollouts"], status["retired_sessions"])
    assert {"forgotten": ["ipi-7"]} == forgotten.json()
    for one in (other, after, again):
        assert 200 == (await one.post(RECORD[0], json=RECORD[1])).status_code


async def test_d20_a_retire_waits_its_turn(
    seeded: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """Refused while a checkpoint is open; waits for requests in flight."""
    client = await seeded()
    await client.control("prepare")
    refused = await client.control("retire", episode_ids=named("ipi-7"))
    await client.control("resume")
    cookie = f"{COOKIE}={client.cookies[COOKIE]}"
    running = wire(client.app, UPDATE, None, cookie=cookie, slow=True)
    await settled()
    retire = asyncio.ensure_future(client.control("retire", episode_ids=named("ipi-7")))
    await settled()
    is_waiting = not retire.done()
    running.give(json.dumps(notes()).encode())
    await running.task

    assert (409, "invalid_phase") == code(refused)
    assert is_waiting
    assert 200 == running.status
    assert {"retired": ["ipi-7"]} == (await retire).json()
    assert 0 == (await client.counts())["sessions"]


async def test_d21_a_retire_cut_short_can_be_repeated(
    seeded: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """409 at its deadline, the session blocks prepare, retry frees it; forget before."""
    client = await seeded()
    cookie = f"{COOKIE}={client.cookies[COOKIE]}"
    running = wire(client.app, UPDATE, None, cookie=cookie, slow=True)
    await settled()
    ids: dict[str, Any] = {"episode_ids": named("ipi-7")}
    short = await client.control("retire", **ids, seconds=0.02)
    early = await client.control("forget", rollout_ids=["ipi-7"])
    running.give(json.dumps(notes()).encode())
    await running.task
    blocked = await client.control("prepare", seconds=0)
    await client.control("resume")
    again = await client.control("retire", "c-2", **ids)
    forgotten = await client.control("forget", "c-2", rollout_ids=["ipi-7"])

    assert (409, "deadline_exceeded") == code(short)
    assert (409, "retire_incomplete") == code(early)
    assert ("preparing", ["ipi-7"], 1) == (
        blocked.json()["phase"],
        blocked.json()["report"]["blockers"],
        blocked.json()["report"]["blocker_count"],
    )
    assert (200, 200) == (again.status_code, forgotten.status_code)
    assert "prepared" == (await client.control("prepare", "c-3")).json()["phase"]


async def test_d22_what_is_exported_is_no_live_state(
    connect: Callable[..., Awaitable[Client]],
    seeded: Callable[..., Awaitable[Client]],
    tmp_path: Path,
) -> None:
    """Export and restore do not alias: neither side sees the other's changes."""
    client = await seeded()
    await committed(client, tmp_path)
    await client.control("resume")
    await client.post(UPDATE, json=notes("Only before."))
    fresh = await connect(cookies=client.cookies)
    scope = named("ipi-7")
    await fresh.control("restore", checkpoint_dir=str(tmp_path), episode_ids=scope)
    await fresh.control("resume")
    await fresh.post(UPDATE, json=notes("Only after."))
    texts = [(await c.post(RECORD[0], json=RECORD[1])).text for c in (client, fresh)]

    assert [(True, False), (False, True)] == [
        ("Only before." in text, "Only after." in text) for text in texts
    ]


async def test_d23_a_client_that_leaves_is_not_counted(
    seeded: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """A disconnect during a tool call leaves in-flight at 0."""
    client = await seeded()
    running = wire(client.app, UPDATE, None, slow=True)
    await settled()
    during = (await client.counts())["inflight"]
    running.hang_up()
    await running.task

    assert (1, 0) == (during, (await client.counts())["inflight"])


async def test_b46_a_late_call_of_an_older_attempt_changes_nothing(
    connect: Callable[..., Awaitable[Client]],
    seeded: Callable[..., Awaitable[Client]],
    tmp_path: Path,
) -> None:
    """After the restore as attempt 1 a delayed call of attempt 0 is refused."""
    client = await seeded()
    await committed(client, tmp_path)
    fresh = await connect(cookies=client.cookies)
    scope = named("ipi-7")
    await fresh.control("restore", checkpoint_dir=str(tmp_path), episode_ids=scope)
    await fresh.control("resume")
    before = await fresh.post(RECORD[0], json=RECORD[1])
    late = await fresh.post(f"/ng-rollout/ipi-7{UPDATE}", json=notes("Late."))
    after = await fresh.post(RECORD[0], json=RECORD[1])

    assert (409, "stale_attempt") == code(late)
    assert before.content == after.content
    assert {"inflight": 0, "sessions": 1} == await fresh.counts()


async def test_b47_a_retired_session_does_not_come_back(
    seeded: Callable[..., Awaitable[Client]], verify_body: dict[str, Any]
) -> None:
    """Refused with its old cookie, nothing created; others work; again is harmless."""
    client = await seeded()
    other = await seeded("ipi-8", client.app)
    ids: dict[str, Any] = {"episode_ids": named("ipi-7")}
    await client.control("retire", **ids)
    tool = await client.post(UPDATE, json=notes())
    verify = await client.post("/verify", json=verify_body)
    again = await client.control("retire", **ids)

    assert [(409, "stale_attempt")] * 2 == [code(tool), code(verify)]
    assert {"inflight": 0, "sessions": 1} == await client.counts()
    assert 200 == (await other.post(RECORD[0], json=RECORD[1])).status_code
    assert {"retired": ["ipi-7"]} == again.json()


async def test_b47_a_forgotten_session_has_no_world(
    seeded: Callable[..., Awaitable[Client]],
) -> None:
    """When its mark is lifted the old cookie finds nothing: the world was freed."""
    client = await seeded()
    await client.control("retire", episode_ids=named("ipi-7"))
    await client.control("forget", rollout_ids=["ipi-7"])
    reply = await client.post(RECORD[0], json=RECORD[1])

    assert 400 == reply.status_code
    assert "the cookie's session has no world" == reply.headers["x-ipistate-hint"]


async def test_a_renew_lasts_as_long_as_it_says(
    seeded: Callable[..., Awaitable[Client]],
) -> None:
    """The reply is the lease's end; a shorter renew does not shorten it."""
    client = await seeded(lease_grace_seconds=100)
    idle = await client.control("renew")
    await client.control("prepare")
    renewed = await client.control("renew", seconds=900)
    shorter = await client.control("renew", seconds=1)
    until = renewed.json()["lease_expires_at"]

    assert (409, "invalid_phase") == code(idle)
    assert 990 < until - time.time() < 1010
    assert {"lease_expires_at": until} == shorter.json()
    assert until == (await client.status())["lease_expires_at"]
