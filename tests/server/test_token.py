"""Who may call the control plane, and how much of it one call may ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from starlette.applications import Starlette
from starlette.datastructures import Secret
from starlette.routing import Mount

from ipistate.protocol.operations import MAX_IDS
from ipistate.server.app import create_app
from ipistate.server.operating.settings import ServerSettings


if TYPE_CHECKING:
    from tests.server.conftest import Client, Wire


pytestmark = pytest.mark.anyio

CONTROL = "/ng-control/v1/checkpoint"
AUTHORIZED = {"authorization": "Bearer a-token"}


async def test_the_token_is_asked_for_before_the_body_arrives(
    connect: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """A caller without it is answered at once, whatever it was going to send."""
    client = await connect()
    call = wire(client.app, f"{CONTROL}/commit", None)
    await settled()

    assert 401 == call.status


@pytest.mark.parametrize("length", ["17000000", "100000000000"])
async def test_a_length_over_the_limit_is_no_way_around_the_token(
    connect: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
    length: str,
) -> None:
    """401 and not 413, so the limit is not told either."""
    client = await connect()
    headers = {"content-length": length}
    call = wire(client.app, f"{CONTROL}/commit", None, headers=headers)
    await settled()

    assert 401 == call.status


async def test_two_tokens_are_none(
    connect: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
) -> None:
    """A header that a proxy adds to a forged one decides nothing."""
    client = await connect()
    reply = await client.get(
        f"{CONTROL}/status",
        headers=[("authorization", "Bearer a-token"), ("authorization", "Bearer x")],
    )

    assert 401 == reply.status_code


async def test_a_prefix_is_no_way_around_the_token(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """The path that counts is the one behind the rollout prefix."""
    client = await connect()
    path = f"/ng-rollout/ipi-7{CONTROL}/status"

    assert 401 == (await client.get(path)).status_code
    assert 200 == (await client.get(path, headers=AUTHORIZED)).status_code


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_every_method_of_a_route_is_guarded(
    connect: Callable[..., Awaitable[Client]], method: str
) -> None:
    """HEAD comes with GET."""
    client = await connect()

    assert 401 == (await client.request(method, f"{CONTROL}/status")).status_code


async def test_a_mounted_server_lets_nobody_in_by_mistake(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """Below a path of another application the guard finds no routes: all is refused."""
    app = create_app(ServerSettings(checkpoint_token=Secret("a-token")))
    client = await connect(Starlette(routes=[Mount("/below", app)]))
    for headers in ({}, AUTHORIZED):
        reply = await client.get(f"/below{CONTROL}/status", headers=headers)

        assert 401 == reply.status_code


@pytest.mark.parametrize(
    ("client", "shown"),
    [
        (("192.0.2.7", 5), "from '192.0.2.7'"),
        (("\x1b[2J\u202e", 5), r"from '\x1b[2J\u202e'"),
        (("x" * 10_000, 5), "from 'xxx"),
        (None, "from None"),
    ],
)
async def test_b12_the_text_of_a_refusal_has_the_address(
    caplog: pytest.LogCaptureFixture, client: tuple[str, int] | None, shown: str
) -> None:
    """B12: for people, too; whatever stands there is shown harmless and short."""
    app = create_app(ServerSettings(checkpoint_token=Secret("a-token")))
    path, sent = f"{CONTROL}/status", list[Any]()

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        pytest.fail("no body is read")

    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode()}
    rest: dict[str, Any] = {
        "query_string": b"",
        "root_path": "",
        "headers": [],
        "client": client,
    }
    await app({**scope, **rest}, receive, send)
    (record,) = [r for r in caplog.records if r.name == "ipistate.server.token"]

    assert 401 == sent[0]["status"]
    assert shown in record.getMessage()
    assert len(record.getMessage()) < 200


async def test_a_refused_caller_is_logged_without_what_it_sent(
    connect: Callable[..., Awaitable[Client]], caplog: pytest.LogCaptureFixture
) -> None:
    """The address, and neither the right token nor the wrong one."""
    client = await connect()
    headers = {"authorization": "Bearer a-guess"}
    await client.get(f"{CONTROL}/status", headers=headers)
    (record,) = [r for r in caplog.records if r.name == "ipistate.server.token"]

    assert "127.0.0.1" == vars(record)["client"]
    assert "a-guess" not in str(vars(record))
    assert "a-token" not in str(vars(record))


@pytest.mark.parametrize(
    ("name", "member", "ids"),
    [
        ("commit", "episode_ids", [{"rollout_id": "r"}] * 4),
        ("restore", "episode_ids", [{"rollout_id": "r"}] * 4),
        ("retire", "episode_ids", [{"rollout_id": "r"}] * 4),
        ("forget", "rollout_ids", ["r"] * 4),
    ],
)
async def test_a_call_names_only_so_many_ids(
    connect: Callable[..., Awaitable[Client]],
    tmp_path: Path,
    name: str,
    member: str,
    ids: list[str | dict[str, str]],
) -> None:
    """422 with the member's path; the limit itself is allowed."""
    client = await connect(max_control_ids=3)
    has_directory = name in {"commit", "restore"}
    members: Any = {"checkpoint_dir": str(tmp_path)} if has_directory else {}
    refused = await client.control(name, **members | {member: ids})
    allowed = await client.control(name, **members | {member: ids[:3]})
    (found,) = refused.json()["detail"]

    assert (422, "too_many_ids") == (refused.status_code, found["type"])
    assert ["body", member] == found["loc"]
    assert "too_many_ids" not in allowed.text


async def test_a_control_body_has_a_limit_of_its_own(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """413 with the token, by length and by counting; data bodies may be longer."""
    client = await connect(max_control_bytes=1000)
    headers = {**AUTHORIZED, "content-type": "application/json"}

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b" " * 100

    for content in (b" " * 1100, chunks()):
        reply = await client.post(
            f"{CONTROL}/prepare", content=content, headers=headers
        )

        assert 413 == reply.status_code
    seed = await client.post("/seed_session", json={"environment": {"a": "x" * 2000}})
    assert 200 == seed.status_code


@pytest.mark.parametrize("limit", [0, MAX_IDS + 1])
async def test_limits_that_make_no_sense_are_refused(limit: int) -> None:
    """The operator may lower the package's own limit, not raise it."""
    with pytest.raises(ValueError, match="max_control_ids"):
        ServerSettings(max_control_ids=limit)
