"""The extension and checkpoints: who waits, who is exported, what goes on afterwards."""

from __future__ import annotations

import asyncio
import json

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hypothesis import given, settings
from hypothesis import strategies as st

from ipistate.sessions.codec import session_from_json
from ipistate.sessions.session import Session


if TYPE_CHECKING:
    import httpx

    from tests.server.conftest import Client, Wire


pytestmark = pytest.mark.anyio

CHART = "call/update_patient_chart"
READ = {"patient_id": "P-7742"}
TOKEN = {"authorization": "Bearer a-token"}
STATE = {"schema_version": 1, "environment": {}}
VERSIONS = [1, 2]


def note(text: str) -> dict[str, str]:
    """Return the arguments of a call that changes the world."""
    return {**READ, "notes": text}


def episode(key: str) -> dict[str, int | str]:
    """Return the document of a first attempt."""
    return {"rollout_id": key, "attempt": 0}


async def fork(client: Client, *keys: str) -> list[str]:
    """Fork a client's session for episodes; returns their cookies."""
    wanted = {"episode_ids": [episode(key) for key in keys]}
    reply = await client.extended("fork", wanted)
    assert reply.status_code == 200, reply.text
    return [one["cookie"] for one in reply.json()["sessions"]]


def cookie_of(client: Client) -> str:
    """Return the client's own cookie."""
    ((name, value),) = client.cookies.items()
    return f"{name}={value}"


async def commit(
    client: Client, directory: Path, checkpoint_id: str = "c-1"
) -> list[str]:
    """Take a checkpoint of everything that is bound, and resume; returns the keys."""
    await client.control("prepare", checkpoint_id)
    members: dict[str, Any] = {"checkpoint_dir": str(directory)}
    reply = await client.control("commit", checkpoint_id, **members)
    await client.control("resume", checkpoint_id)
    assert reply.status_code == 200, reply.text
    found: list[str] = reply.json()["episode_ids"]
    return found


async def restore(client: Client, directory: Path, *keys: str) -> httpx.Response:
    """Restore episodes into the client's server; returns the reply."""
    members: dict[str, Any] = {
        "checkpoint_dir": str(directory),
        "episode_ids": [episode(key) for key in keys],
    }
    reply = await client.control("restore", "r-1", **members)
    await client.control("resume", "r-1")
    return reply


def lines(directory: Path) -> list[dict[str, Any]]:
    """Read the records of a checkpoint."""
    (file,) = directory.glob("gym/resources/ipi/records-*.jsonl")
    return [json.loads(line) for line in file.read_bytes().splitlines()]


# -- who waits ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("fork", {"count": 1}),
        ("rewind", {"count": 0}),
        ("import", {"state": STATE}),
        (CHART, note("a")),
    ],
)
async def test_posts_wait_for_the_resume(
    extended: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
    name: str,
    body: dict[str, Any],
) -> None:
    """No answer and no effect while a checkpoint is open, then the usual answer."""
    client = await extended()
    await client.seed(key="ipi-7")
    before = await client.exported()
    await client.control("prepare")
    sent = wire(
        client.app,
        f"/ipistate/v1/{name}",
        json.dumps(body).encode(),
        cookie=cookie_of(client),
        headers={**TOKEN, "idempotency-key": "k"},
    )
    await settled()
    waiting, same = sent.status, before == await client.exported()
    await client.control("resume")
    await sent.task

    assert (None, True, 200) == (waiting, same, sent.status)


async def test_gets_answer_while_a_checkpoint_is_open(
    extended: Callable[..., Awaitable[Client]],
) -> None:
    """And they claim no restored session and hold up no prepare."""
    client = await extended()
    await client.seed(key="ipi-7")
    await client.control("prepare")

    for name in ("history", "diff", "export"):
        assert 200 == (await client.extended(name)).status_code
    assert 0 == (await client.counts())["inflight"]


async def test_a_prepare_waits_for_a_fork(
    extended: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """A fork that was let in is finished first, and is part of the checkpoint."""
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
    prepare = asyncio.ensure_future(client.control("prepare"))
    await settled()
    waits = not prepare.done()
    sent.give(json.dumps({"episode_ids": [episode("a")]}).encode())
    document = (await prepare).json()

    assert waits
    assert ("prepared", 2) == (
        document["phase"],
        document["report"]["counts"]["sessions"],
    )


async def test_a_fork_whose_attempt_is_retired_meanwhile(
    extended: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """It comes too late like a late seed; it is refused, and a retire waits for none."""
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
    await client.control("retire", episode_ids=[episode("a")])
    sent.give(json.dumps({"episode_ids": [episode("a")]}).encode())
    await sent.task

    assert (409, "stale_attempt") == (sent.status, sent.document["error"]["code"])
    assert {"inflight": 0, "sessions": 1} == await client.counts()


async def test_a_refused_fork_that_waited_holds_nobody_up(
    extended: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """After the resume it is let in, refused, and the next request goes on at once."""
    client = await extended()
    await client.seed(key="ipi-7")
    await client.control("retire", "x-1", episode_ids=[episode("a")])
    await client.control("prepare")
    sent = wire(
        client.app,
        "/ipistate/v1/fork",
        json.dumps({"episode_ids": [episode("a")]}).encode(),
        cookie=cookie_of(client),
        headers=TOKEN,
    )
    await settled()
    await client.control("resume")
    await sent.task

    assert 409 == sent.status
    assert 200 == (await client.post("/get_patient_record", json=READ)).status_code
    assert {"inflight": 0, "sessions": 1} == await client.counts()


# -- what goes on ------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_branches_of_a_live_session_outlive_the_process(
    extended: Callable[..., Awaitable[Client]],
    fresh: Callable[..., Client],
    tmp_path: Path,
    version: int,
) -> None:
    """Fork, diverge, checkpoint, crash, restore: each branch goes on byte for byte."""
    client = await extended(checkpoint_state_version=version)
    await client.seed(key="ipi-7")
    await client.extended(CHART, note("before"), key="k")
    cookies = [cookie_of(client), *await fork(client, "a", "b")]
    branches = [await extended(cookie) for cookie in cookies]
    for number, branch in enumerate(branches):
        await branch.post("/update_patient_chart", json=note(f"branch {number}"))
    keys = await commit(client, tmp_path)
    after = [await goes_on(branch) for branch in branches]

    async with fresh(checkpoint_state_version=version) as other:
        reply = await restore(other, tmp_path, "ipi-7", "a", "b")
        again: list[list[bytes]] = []
        for cookie in cookies:
            other.cookies.clear()
            other.cookies.set(*cookie.split("=", 1))
            again.append(await goes_on(other))

    assert ["a", "b", "ipi-7"] == keys
    assert ["a-a1", "b-a1", "ipi-7-a1"] == reply.json()["restored"]
    assert after == again
    assert 3 == len({told[0] for told in after})


async def goes_on(client: Client) -> list[bytes]:
    """Read, change and read again; returns the bytes of the replies."""
    return [
        (await client.post("/get_patient_record", json=READ)).content,
        (await client.post("/update_patient_chart", json=note("after"))).content,
        (await client.post("/get_patient_record", json=READ)).content,
    ]


async def test_an_imported_session_takes_part(
    extended: Callable[..., Awaitable[Client]],
    fresh: Callable[..., Client],
    tmp_path: Path,
) -> None:
    """It is exported under its episode and restored like any other."""
    client = await extended(checkpoint_state_version=2)
    await client.seed()
    await client.extended(CHART, note("a"), key="k")
    exported = await client.exported()
    body = {"state": json.loads(exported), "episode_id": episode("z")}
    cookie = (await client.extended("import", body)).json()["cookie"]

    assert ["z"] == await commit(client, tmp_path)
    async with fresh(checkpoint_state_version=2) as other:
        await restore(other, tmp_path, "z")
        other.cookies.set(*cookie.split("=", 1))
        assert exported == await other.exported()


async def test_version_2_goes_on_with_the_history(
    extended: Callable[..., Awaitable[Client]],
    fresh: Callable[..., Client],
    tmp_path: Path,
) -> None:
    """Log, rewind and keys outlive the restore, as if nothing had happened."""
    client = await extended(checkpoint_state_version=2)
    await client.seed(key="ipi-7")
    first = await client.extended(CHART, note("a"), key="k")
    await client.post("/update_patient_chart", json=note("b"))
    exported = await client.exported()
    await commit(client, tmp_path)

    async with fresh(checkpoint_state_version=2) as other:
        await restore(other, tmp_path, "ipi-7")
        other.cookies.set(*cookie_of(client).split("=", 1))
        again = await other.extended(CHART, note("a"), key="k")
        conflict = await other.extended(CHART, note("c"), key="k")
        assert (first.content, 409) == (again.content, conflict.status_code)
        assert exported == await other.exported()
        assert {"length": 1} == (await other.extended("rewind", {"count": 1})).json()


async def test_by_default_a_history_begins_with_the_restore(
    extended: Callable[..., Awaitable[Client]],
    fresh: Callable[..., Client],
    tmp_path: Path,
) -> None:
    """Version 1 holds worlds only: an empty log, and keys that are free again."""
    client = await extended()
    await client.seed(key="ipi-7")
    await client.extended(CHART, note("a"), key="k")
    await commit(client, tmp_path)

    async with fresh() as other:
        await restore(other, tmp_path, "ipi-7")
        other.cookies.set(*cookie_of(client).split("=", 1))
        document = (await other.extended("history")).json()
        other_call = await other.extended(CHART, note("b"), key="k")

    assert (0, 200) == (document["length"], other_call.status_code)


async def test_by_default_checkpoints_are_those_of_every_server(
    connect: Callable[..., Awaitable[Client]],
    extended: Callable[..., Awaitable[Client]],
    tmp_path: Path,
) -> None:
    """With the extension and without, the states are the same bytes of version 1."""
    states: list[str] = []
    for number, maker in enumerate((connect, extended)):
        client = await maker()
        await client.seed(key="ipi-7")
        await client.post("/update_patient_chart", json=note("a"))
        await commit(client, tmp_path / str(number))
        (record,) = lines(tmp_path / str(number))
        states.append(json.dumps(record["state"]))

    assert states[0] == states[1]
    assert 1 == json.loads(states[0])["schema_version"]


async def test_version_2_reads_version_1_and_not_the_other_way(
    extended: Callable[..., Awaitable[Client]],
    connect: Callable[..., Awaitable[Client]],
    fresh: Callable[..., Client],
    tmp_path: Path,
) -> None:
    """An older form gets an empty log; a newer one is refused, and nothing installed."""
    writer = await extended(checkpoint_state_version=2)
    plain = await connect()
    for client, name in ((writer, "new"), (plain, "old")):
        await client.seed(key="ipi-7")
        await client.post("/update_patient_chart", json=note("a"))
        await commit(client, tmp_path / name)

    async with fresh(checkpoint_state_version=2) as other:
        assert 200 == (await restore(other, tmp_path / "old", "ipi-7")).status_code
        other.cookies.set(*cookie_of(plain).split("=", 1))
        assert 0 == (await other.extended("history")).json()["length"]
    async with fresh() as other:
        refused = await restore(other, tmp_path / "new", "ipi-7")
        assert (422, 0) == (refused.status_code, (await other.counts())["sessions"])


async def test_an_unchanged_session_is_encoded_once(
    extended: Callable[..., Awaitable[Client]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With version 2, too: the next checkpoint finds the text of the last one."""
    from ipistate.sessions.codec import SessionCodec  # noqa: PLC0415

    encoded: list[Session] = []
    encode = SessionCodec.encode

    def counted(codec: SessionCodec, state: Session) -> bytes:
        encoded.append(state)
        return encode(codec, state)

    monkeypatch.setattr(SessionCodec, "encode", counted)
    client = await extended(checkpoint_state_version=2)
    await client.seed(key="ipi-7")
    await fork(client, "a", "b")
    await commit(client, tmp_path / "1")
    await commit(client, tmp_path / "2", "c-2")

    assert 1 == len(encoded)


# -- a law -------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["call", "once", "fork", "rewind"]),
        st.integers(0, 3),
        st.sampled_from("ab"),
    ),
    max_size=8,
)


async def do(client: Client, cookies: list[str], step: tuple[str, int, str]) -> None:
    """Do one thing in one of the sessions."""
    kind, which, text = step
    client.cookies.clear()
    client.cookies.set(*cookies[which % len(cookies)].split("=", 1))
    if kind == "call":
        await client.post("/update_patient_chart", json=note(text))
    elif kind == "once":
        await client.extended(CHART, note(text), key=text)
    elif kind == "rewind":
        await client.extended("rewind", {"count": 1})
    else:
        cookies += await fork(client, f"f{len(cookies)}")


async def exports(client: Client, cookies: list[str]) -> list[bytes]:
    """Return the export of each session."""
    found: list[bytes] = []
    for cookie in cookies:
        client.cookies.clear()
        client.cookies.set(*cookie.split("=", 1))
        found.append(await client.exported())
    return found


@settings(deadline=None)
@given(before=STEPS, after=STEPS)
def test_a_restore_between_steps_changes_nothing(
    fresh: Callable[..., Client],
    tmp_path_factory: pytest.TempPathFactory,
    before: list[tuple[str, int, str]],
    after: list[tuple[str, int, str]],
) -> None:
    """Sessions after steps, a crash and steps are those after the same steps alone."""

    async def run(cuts: bool) -> list[bytes]:
        directory = tmp_path_factory.mktemp("checkpoint")
        first = fresh(checkpoint_state_version=2)
        await first.seed(key="ipi-7")
        cookies = [cookie_of(first)]
        for step in before:
            await do(first, cookies, step)
        keys = await commit(first, directory)
        client = fresh(checkpoint_state_version=2) if cuts else first
        if cuts:
            await restore(client, directory, *keys)
        for step in after:
            await do(client, cookies, step)
        return await exports(client, cookies)

    whole, cut = asyncio.run(run(cuts=False)), asyncio.run(run(cuts=True))

    assert whole == cut
    assert all(session_from_json(text) for text in whole)
