"""Prefix and cookie of a request: which session it means, and what is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from starlette.datastructures import Secret

from ipistate.server.live.aside import LARGE_SEED
from ipistate.server.operating.settings import ServerSettings


if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.conftest import Client, Wire


pytestmark = pytest.mark.anyio

CALL = ("/get_patient_record", {"patient_id": "P-7742"})
SECRET = Secret("of this deployment")


async def called(client: Client, key: str = "", **options: Any) -> httpx.Response:
    """Read a record, under a rollout prefix if there is a key."""
    prefix = f"/ng-rollout/{key}" if key else ""
    return await client.post(prefix + CALL[0], json=CALL[1], **options)


async def test_a14_a_repeated_seed_starts_the_session_of_its_episode_afresh(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """Without a cookie the prefix alone finds it, before and after."""
    client = await connect()
    await client.seed(world, key="ipi-7")
    update = {"patient_id": "P-7742", "notes": "Changed."}
    await client.post("/update_patient_chart", json=update)
    client.cookies.clear()
    changed = await called(client, "ipi-7")
    client.cookies.clear()
    await client.seed(world, key="ipi-7")
    client.cookies.clear()
    afresh = await called(client, "ipi-7")

    assert "Changed." in changed.text
    assert 200 == afresh.status_code
    assert "Changed." not in afresh.text


async def test_a14_seeds_that_waited_make_one_session(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """Two of one episode that came while the gate was closed are no exception."""
    client = await connect()
    await client.control("prepare")
    body = httpx.Request("POST", "http://x", json={"environment": world}).content
    waiting = [wire(client.app, "/ng-rollout/ipi-7/seed_session", body) for _ in "ab"]
    await settled()
    await client.control("resume")
    for one in waiting:
        await one.task

    assert 1 == (await client.counts())["sessions"]


async def test_a14_large_seeds_that_are_read_at_once_make_one_session(
    connect: Callable[..., Awaitable[Client]], wire: type[Wire]
) -> None:
    """They are read beside the event loop, and both begin before either has ended."""
    client = await connect()
    large = {"environment": {"notes": {"n": "x" * LARGE_SEED}}}
    body = httpx.Request("POST", "http://x", json=large).content
    seeds = [wire(client.app, "/ng-rollout/ipi-7/seed_session", body) for _ in "ab"]
    for one in seeds:
        await one.task

    assert 1 == (await client.counts())["sessions"]


@pytest.mark.parametrize("strict", [False, True])
async def test_a15_a_prefix_of_another_rollout_is_counted_and_refused_on_request(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any], strict: bool
) -> None:
    """The cookie counts, as on the wire; with strict episodes such a request is 409."""
    client = await connect(strict_episodes=strict, metrics=True)
    await client.seed(world, key="ipi-7")
    replies = [await called(client, key) for key in ("ipi-7", "", "ipi-8")]
    shown = (await client.get("/metrics")).text

    assert [200, 200, 409 if strict else 200] == [r.status_code for r in replies]
    assert strict == ("foreign_episode" in replies[2].text)
    assert "ipistate_foreign_prefixes_total 1.0" in shown


async def test_a15_a_close_is_never_refused(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """It cannot harm, and it must not get lost."""
    client = await connect(strict_episodes=True)
    await client.seed(world, key="ipi-7")
    body = {"resources_session_id": "x", "episode_id": {"rollout_id": "r"}}
    reply = await client.post("/ng-rollout/ipi-8/close_session", json=body)

    assert 200 == reply.status_code


async def test_b9_with_cookies_only_a_prefix_finds_no_session(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """A guessed rollout id neither reads a session, nor ends it, nor takes it over."""
    client = await connect(cookies_only=True)
    await client.seed(world, key="ipi-7")
    stranger = await connect(client.app)
    read = await called(stranger, "ipi-7")
    verify = await stranger.post("/ng-rollout/ipi-7/verify", json={})
    stranger.cookies.clear()
    seed = await stranger.post(
        "/ng-rollout/ipi-7/seed_session", json={"environment": {}}
    )

    assert [400, 422, 409] == [r.status_code for r in (read, verify, seed)]
    assert "episode_taken" in seed.text
    assert 200 == (await called(client, "ipi-7")).status_code


async def test_b9_the_owner_may_seed_again_with_its_cookie(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """Only a request without the cookie is refused."""
    client = await connect(cookies_only=True)
    await client.seed(world, key="ipi-7")
    await client.seed(world, key="ipi-7")

    assert 1 == (await client.counts())["sessions"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("127.0.0.1", 200), ("127.0.0.1:8000", 200), ("LOCALHOST:1", 200)),
        *(("[::1]:8000", 200), ("[::1]", 200)),
        *(("evil.example", 400), ("127.0.0.1.evil.example", 400), ("", 400)),
        *(("[::2]", 400), ("localhost.evil:80", 400), ("\u00e9", 400)),
    ],
)
@pytest.mark.parametrize("path", ["/health", CALL[0]])
async def test_b9_only_hosts_that_are_allowed_are_answered(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    host: str,
    status: int,
    path: str,
) -> None:
    """A page of a foreign site, whose name was made to mean this machine, is refused."""
    hosts = ("localhost", "127.0.0.1", "::1")
    client = await connect(allowed_hosts=hosts)
    await client.seed(world, headers={"host": "localhost"})
    method, body = ("GET", None) if path == "/health" else ("POST", CALL[1])
    for _ in range(2):
        headers = [(b"host", host.encode())]
        reply = await client.request(method, path, json=body, headers=headers)

        assert status == reply.status_code


async def test_b9_a_request_without_a_host_is_answered(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """No browser sends one."""
    client = await connect(allowed_hosts=("localhost",))
    request = client.build_request("GET", "/health")
    request.headers.pop("host")

    assert 200 == (await client.send(request)).status_code


async def test_a_hardened_server_gives_no_hints(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """Why a request has no session is nothing that a stranger needs to know."""
    plain = await connect()
    client = await connect(hardened=True, cookie_secret=SECRET, checkpoint_token=None)
    replies = [await called(one) for one in (plain, client)]

    assert ["x-ipistate-hint" in reply.headers for reply in replies] == [True, False]
    assert replies[0].text == replies[1].text


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"hardened": True}, "private secret"),
        ({"require_private_secret": True}, "private secret"),
        (
            {"hardened": True, "cookie_secret": SECRET, "checkpoint_token": SECRET},
            "checkpoint root",
        ),
    ],
)
def test_what_a_hardened_server_needs_is_named(
    given: dict[str, Any], missing: str
) -> None:
    """It does not start without."""
    with pytest.raises(ValueError, match=missing):
        ServerSettings(**given)


async def test_a_hardened_server_follows_no_links_below_its_root(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any], tmp_path: Path
) -> None:
    """Also not those that stay below it."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    settings: Any = {"cookie_secret": SECRET, "checkpoint_root": tmp_path}
    client = await connect(hardened=True, **settings)
    await client.seed(world, key="ipi-7")
    await client.control("prepare")
    refused = await client.control("commit", checkpoint_dir="link")
    reply = await client.control("commit", checkpoint_dir="real")

    assert (422, 200) == (refused.status_code, reply.status_code)
