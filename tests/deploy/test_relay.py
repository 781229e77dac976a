"""A relay of rows: the agent's answers come back byte for byte."""

from __future__ import annotations

import json

from collections.abc import AsyncIterator
from typing import Any

import pytest

from loopback import Loopback
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from tests.deploy.conftest import BOUNDS

from ipistate.clients import HttpClient
from ipistate.deploy import create_relay_app


pytestmark = pytest.mark.anyio


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    """Start a relay in front of an agent that repeats what it gets."""

    async def run(request: Any) -> Response:
        return Response(await request.body(), 418, media_type="text/x-odd")

    agent = Starlette(routes=[Route("/run", run, methods=["POST"])])
    async with Loopback({"agent": agent}) as hosts:
        out = HttpClient(resolver=hosts)
        hosts.hosts["relay"] = create_relay_app("http://agent", client=out)
        hosts.hosts["small"] = create_relay_app(
            "http://agent", client=out, max_body_bytes=7
        )
        hosts.hosts["lost"] = create_relay_app("http://nobody", client=out)
        async with HttpClient(resolver=hosts) as client, out:
            yield client


async def sent(client: HttpClient, host: str) -> Any:
    """Send a row to a relay."""
    return await client.send(
        "POST", f"http://{host}", "/run", b'{"a": 1}', bounds=BOUNDS
    )


async def test_a_row_passes(client: HttpClient) -> None:
    """Body, status and type of the answer are the agent's."""
    answer = await sent(client, "relay")

    assert (418, b'{"a": 1}') == (answer.status, answer.content)
    assert answer.headers["content-type"].startswith("text/x-odd")


async def test_an_agent_that_is_gone(client: HttpClient) -> None:
    """The caller is told so."""
    answer = await sent(client, "lost")

    assert 502 == answer.status
    assert json.loads(answer.content)["detail"].startswith("the agent: ")


async def test_a_row_that_is_too_long(client: HttpClient) -> None:
    """It is refused before anybody holds it."""
    answer = await sent(client, "small")

    assert 413 == answer.status


async def test_it_takes_no_part_in_checkpoints(client: HttpClient) -> None:
    """Discovery finds no control routes, and passes it over."""
    path = "/ng-control/v1/checkpoint/status"
    answer = await client.send("GET", "http://relay", path, bounds=BOUNDS)

    assert 404 == answer.status
