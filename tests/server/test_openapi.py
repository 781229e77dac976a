"""The OpenAPI document describes the server, and no request makes the server fail."""

from __future__ import annotations

import json
import socket
import threading
import time

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import httpx
import pytest
import schemathesis
import uvicorn

from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.datastructures import Secret
from starlette.routing import Route

from ipistate.protocol.actions import STATUS_OF
from ipistate.protocol.operations import MAX_IDS, OPERATIONS
from ipistate.protocol.participant import Phase
from ipistate.server.app import create_app
from ipistate.server.operating.settings import ServerSettings


if TYPE_CHECKING:
    from starlette.applications import Starlette


DOCUMENT = json.loads(
    (Path(__file__).parents[2] / "docs/reference/openapi.json").read_text("utf-8")
)
SCHEMAS = DOCUMENT["components"]["schemas"]
CONTROL = "/ng-control/v1/checkpoint"
HEADERS = {"Authorization": "Bearer a-token"}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def everything(root: Path | None = None) -> Starlette:
    """Return the application with all that can be switched on."""
    return create_app(
        ServerSettings(
            checkpoint_token=Secret("a-token"),
            checkpoint_root=root,
            extension=True,
            metrics=True,
        )
    )


def test_the_document_has_exactly_the_routes() -> None:
    """Each path with each of its methods, and no other."""
    served = {
        (route.path, method.lower())
        for route in everything().routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    described = {(path, m) for path, item in DOCUMENT["paths"].items() for m in item}

    assert served == described


@pytest.mark.parametrize("name", OPERATIONS)
def test_bodies_have_exactly_the_members(name: str) -> None:
    """Those of the record that reads them, and the same ones are required."""
    fields = attrs.fields(OPERATIONS[name])
    body = SCHEMAS[f"{name.capitalize()}Body"]

    assert {field.name for field in fields} == set(body["properties"])
    assert {f.name for f in fields if f.default is attrs.NOTHING} == set(
        body["required"]
    )
    assert body["additionalProperties"] is False


def test_codes_and_phases_are_those_of_the_machine() -> None:
    """And so is the number of ids that a call may name."""
    error = SCHEMAS["Refusal"]["properties"]["error"]["properties"]

    assert sorted(STATUS_OF) == error["code"]["enum"]
    assert [phase.value for phase in Phase] == SCHEMAS["Phase"]["enum"]
    assert MAX_IDS == SCHEMAS["ForgetBody"]["properties"]["rollout_ids"]["maxItems"]


def test_every_reference_leads_somewhere() -> None:
    """And everything that is defined is used."""
    text = json.dumps(DOCUMENT)
    components = {
        f"#/components/{kind}/{name}"
        for kind, members in DOCUMENT["components"].items()
        if isinstance(members, Collection) and kind != "securitySchemes"
        for name in members
    }
    used = {part.split('"')[0] for part in text.split('"$ref": "')[1:]}

    assert components == used


class Announcing(uvicorn.Server):
    """A server that says when it accepts connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.announced = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.announced.set()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve on loopback in a thread."""
    app = everything(tmp_path_factory.mktemp("checkpoints"))
    config = uvicorn.Config(app, port=0, log_config=None, access_log=False)
    server = Announcing(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    assert server.announced.wait(20)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[httpx.Client]:
    """Return a client of the served application."""
    with httpx.Client(base_url=address, headers=HEADERS, timeout=20) as made:
        yield made


SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)


@SCHEMA.parametrize()
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_makes_the_server_fail(
    case: schemathesis.Case[Any], address: str, client: httpx.Client
) -> None:
    """No 5xx, whatever is sent, and every answer is one that is described."""
    reopened(client)
    client.post("/seed_session", json={"environment": {"patients": {}}})
    if case.path in {f"{CONTROL}/commit", f"{CONTROL}/renew"}:
        prepared(client, case.body)
    cookies = dict(client.cookies)
    response = case.call(base_url=address, headers=HEADERS, cookies=cookies, timeout=20)
    case.validate_response(response, checks=CHECKS)


def reopened(client: httpx.Client) -> None:
    """End whatever checkpoint a case has left open, so that no request waits."""
    status = client.get(f"{CONTROL}/status").json()
    if status["phase"] != "idle":
        body = {
            "checkpoint_id": status["checkpoint_id"],
            "deadline_ts": time.time() + 600,
        }
        assert 200 == client.post(f"{CONTROL}/resume", json=body).status_code


def prepared(client: httpx.Client, body: object) -> None:
    """Prepare the checkpoint that a body names, if it names one."""
    if isinstance(body, dict) and isinstance(body.get("checkpoint_id"), str):
        members = {
            "checkpoint_id": body["checkpoint_id"],
            "deadline_ts": time.time() + 600,
        }
        reply = client.post(f"{CONTROL}/prepare", json=members)

        assert reply.status_code in {200, 409, 422}
