"""Sessions that the caller names: the native seed form and its contract."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ipistate import Environment
from ipistate.protocol.episode import EpisodeId
from ipistate.server.live.seeds import NativeSession
from ipistate.server.live.sessions import SessionConflictError, Sessions
from ipistate.sessions.session import Session


if TYPE_CHECKING:
    from tests.server.conftest import Client


pytestmark = pytest.mark.anyio

CALL = ("/get_patient_record", {"patient_id": "P-7742"})


def episode(attempt: int = 0) -> dict[str, int | str]:
    """Return an episode id as JSON."""
    return {"rollout_id": "ipi-7", "attempt": attempt}


def native(
    world: dict[str, Any], name: str = "rs-1", attempt: int = 0, **members: Any
) -> dict[str, Any]:
    """Return a seed in the native form."""
    return {
        "resources_session_id": name,
        "episode_id": episode(attempt),
        "task_id": {"taskset": "ipi:example", "task_id": "clinic-1"},
        "task_data": {"environment": world},
        **members,
    }


def closing(name: str = "rs-1", attempt: int = 0) -> dict[str, Any]:
    """Return a close request."""
    return {"resources_session_id": name, "episode_id": episode(attempt)}


async def test_the_seed_echoes_the_id_and_its_cookie_carries_it(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """The reply is exact, and the session is found by its cookie from then on."""
    client = await connect()
    reply = await client.post("/seed_session", json=native(world))
    expected = (
        '{"resources_session_id":"rs-1","resources_tools":null,"sandbox_access":null}'
    )

    assert (200, expected) == (reply.status_code, reply.text)
    assert "set-cookie" in reply.headers
    assert (await client.post(CALL[0], json=CALL[1])).status_code == 200


async def test_a_repeated_seed_gives_the_session_that_exists(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """Same id and episode: what tools changed is still there."""
    client = await connect()
    await client.post("/seed_session", json=native(world))
    update = {"patient_id": "P-7742", "notes": "Changed."}
    await client.post("/update_patient_chart", json=update)
    again = await client.post("/seed_session", json=native(world))
    record = await client.post(CALL[0], json=CALL[1])

    assert again.status_code == 200
    assert "Changed." in record.text


async def test_a14_a_repeated_seed_with_another_world_is_refused(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """409: it is no repetition, and the session that runs stays as it is."""
    client = await connect()
    await client.post("/seed_session", json=native(world))
    update = {"patient_id": "P-7742", "notes": "Changed."}
    await client.post("/update_patient_chart", json=update)
    refused = await client.post("/seed_session", json=native({**world, "x": 1}))
    record = await client.post(CALL[0], json=CALL[1])

    assert refused.status_code == 409
    assert "another world" in refused.text
    assert "Changed." in record.text


async def test_a14_an_episode_has_one_native_session(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """A second id for an episode that a prefix has bound is refused."""
    client = await connect()
    prefix = "/ng-rollout/ipi-7"
    await client.post(f"{prefix}/seed_session", json=native(world))
    client.cookies.clear()
    refused = await client.post(f"{prefix}/seed_session", json=native(world, "rs-2"))

    assert refused.status_code == 409
    assert 1 == (await client.counts())["sessions"]


async def test_an_id_belongs_to_one_episode(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """Another episode cannot seed a session that runs; the session stays."""
    client = await connect()
    await client.post("/seed_session", json=native(world))
    refused = await client.post("/seed_session", json=native({}, attempt=1))
    record = await client.post(CALL[0], json=CALL[1])

    assert refused.status_code == 409
    assert "R. Osei" in record.text


async def test_b58_close_is_idempotent_and_final(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """Close twice, close what never was, then seed both: 200, 200, 200, 409, 409."""
    client = await connect()
    await client.post("/seed_session", json=native(world))
    closes = [
        await client.post("/close_session", json=closing(name))
        for name in ("rs-1", "rs-1", "rs-2")
    ]
    seeds = [
        await client.post("/seed_session", json=native(world, name))
        for name in ("rs-1", "rs-2")
    ]

    assert [200, 200, 200] == [reply.status_code for reply in closes]
    assert [409, 409] == [reply.status_code for reply in seeds]
    assert '{"detail":"resources session rs-1 is closed"}' == seeds[0].text
    assert (await client.post(CALL[0], json=CALL[1])).status_code == 400


async def test_a_foreign_close_closes_nothing(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """Another episode's close of an id is answered, and its owner goes on with it."""
    client = await connect()
    await client.post("/seed_session", json=native(world))
    client.cookies.clear()
    foreign = await client.post("/close_session", json=closing(attempt=1))
    client.cookies.clear()
    again = await client.post("/seed_session", json=native(world))
    record = await client.post(CALL[0], json=CALL[1])
    closed = await client.post("/close_session", json=closing())
    late = await client.post("/seed_session", json=native(world))

    assert [200, 200, 200, 409] == [
        reply.status_code for reply in (foreign, again, closed, late)
    ]
    assert "R. Osei" in record.text


async def test_the_holder_of_the_cookie_closes_whatever_its_episode(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """The cookie is enough, as the reference finds a session by nothing else."""
    client = await connect()
    await client.post("/seed_session", json=native(world))
    closed = await client.post("/close_session", json=closing(attempt=1))
    late = await client.post("/seed_session", json=native(world))

    assert [200, 409] == [closed.status_code, late.status_code]


async def test_a_close_ends_the_session_that_it_names(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """Of two sessions of an episode the one in the body goes, not the cookie's."""
    client = await connect()
    await client.post("/seed_session", json=native(world, "rs-1"))
    await client.post("/seed_session", json=native(world, "rs-2"))
    await client.post("/close_session", json=closing("rs-1"))
    seeds = [
        await client.post("/seed_session", json=native(world, name))
        for name in ("rs-1", "rs-2")
    ]

    assert [409, 200] == [reply.status_code for reply in seeds]


async def test_b55_close_finds_the_session_without_a_cookie(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """The id is enough, if the episode is the session's; its tracking ends, too."""
    client = await connect()
    await client.post("/ng-rollout/ipi-7/seed_session", json=native(world))
    client.cookies.clear()
    other = await client.post("/close_session", json=closing(attempt=3))
    sessions_after_other = (await client.counts())["sessions"]
    client.cookies.clear()
    own = await client.post("/close_session", json=closing())

    assert (200, 1) == (other.status_code, sessions_after_other)
    assert (200, 0) == (own.status_code, (await client.counts())["sessions"])


async def test_a_restored_session_is_seeded_again_by_its_next_attempt(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any], tmp_path: Path
) -> None:
    """The restored world stays; the id now belongs to the attempt that continues it."""
    before = await connect()
    await before.post("/ng-rollout/ipi-7/seed_session", json=native(world))
    update = {"patient_id": "P-7742", "notes": "Changed."}
    await before.post("/update_patient_chart", json=update)
    await before.control("prepare")
    await before.control("commit", checkpoint_dir=str(tmp_path))
    after = await connect(cookies=before.cookies)
    await after.control(
        "restore", checkpoint_dir=str(tmp_path), episode_ids=[episode()]
    )
    await after.control("resume")
    path = "/ng-rollout/ipi-7-a1/seed_session"
    seed = await after.post(path, json=native({}, attempt=1))
    record = await after.post(CALL[0], json=CALL[1])

    assert seed.status_code == 200
    assert "Changed." in record.text


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"extra": 1}, ["extra"]),
        ({"resources_session_id": 7}, ["resources_session_id"]),
        ({"resources_session_id": ""}, ["resources_session_id"]),
        ({"resources_session_id": "a b"}, ["resources_session_id"]),
        ({"episode_id": None}, ["episode_id"]),
        ({"episode_id": {"rollout_id": "r-a1"}}, ["episode_id", "rollout_id"]),
        ({"task_id": "x"}, ["task_id"]),
        ({"task_data": None}, ["task_data"]),
        ({"task_data": {}}, ["task_data", "environment"]),
        ({"task_data": {"environment": []}}, ["task_data", "environment"]),
    ],
)
async def test_an_invalid_native_seed_is_refused(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    change: dict[str, Any],
    path: list[str],
) -> None:
    """422 with the path, and no session."""
    client = await connect()
    reply = await client.post("/seed_session", json=native(world, **change))
    locations = [found["loc"] for found in reply.json()["detail"]]

    assert reply.status_code == 422
    assert ["body", *path] == locations[0][: len(path) + 1]
    assert (await client.post(CALL[0], json=CALL[1])).status_code == 400


async def test_a_row_with_an_environment_is_a_row(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """Unknown members of a task row are ignored, whatever they are called."""
    client = await connect()
    row = {"environment": world, "resources_session_id": 7}

    assert (await client.post("/seed_session", json=row)).text == "{}"


@pytest.mark.parametrize(
    ("attempt", "closed", "code"),
    [(0, True, "session_closed"), (1, False, "session_taken")],
)
async def test_a_conflict_has_a_code(attempt: int, closed: bool, code: str) -> None:
    """The store refuses in its own terms; the status is the edge's matter."""
    sessions, world = Sessions(lambda _: None, lambda _: None), Environment.of({})
    owned, asked = (
        NativeSession(
            resources_session_id="rs-1", episode_id=EpisodeId("ipi-7", number)
        )
        for number in (0, attempt)
    )
    sessions.open(owned, Session(world))
    if closed:
        sessions.close(owned, "other")
    with pytest.raises(SessionConflictError) as caught:
        sessions.open(asked, world)  # type: ignore[arg-type]

    assert code == caught.value.code
