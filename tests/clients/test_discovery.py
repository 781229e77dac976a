"""Finding participants (docs/reference/control-plane.md, section 5.2)."""

from __future__ import annotations

import asyncio

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from loopback import Loopback

from ipistate.clients import discovery
from ipistate.clients.control_client import ControlClient
from ipistate.clients.discovery import discover, discover_urls
from ipistate.coordination import DiscoveryError, FailureReason, Kind, Participant
from ipistate.coordination.plans import STATUS_SECONDS


if TYPE_CHECKING:
    from tests.clients.conftest import Client, Deployment


pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(
    deployment: Deployment, control: Callable[..., Awaitable[ControlClient]]
) -> ControlClient:
    """Return a client on the deployment's network."""
    return await control(deployment.network)


async def test_participants_are_sorted(deployment: Deployment, client: Client) -> None:
    """Members come by prepare order and name; servers without routes take no part."""
    found = await discover(deployment.config, client)

    assert [
        ("env", Kind.ENVIRONMENT),
        ("policy", Kind.MODEL),
        ("agent-a", Kind.AGENT),
        ("agent-b", Kind.AGENT),
        ("ipi", Kind.RESOURCES),
    ] == [(one.name, one.kind) for one in found]
    assert "http://env.test:80" == found[0].url
    assert [
        ("status", "agent-a", "agent-b", "env", "ipi", "policy")
    ] == deployment.called()


async def test_kind_is_what_the_server_reports(
    deployment: Deployment, client: Client
) -> None:
    """The kind comes from the status, not from the configuration; nothing else counts."""
    deployment.peers["ipi"].answers("status", {"kind": "model", "instance": "other"})
    found = await discover(deployment.config, client)

    assert Participant("ipi", "http://ipi.test:80", Kind.MODEL) in found


@pytest.mark.parametrize(
    ("status", "document", "reason"),
    [
        (200, {"kind": "gateway"}, FailureReason.INVALID_REPLY),
        (200, {}, FailureReason.INVALID_REPLY),
        (200, None, FailureReason.INVALID_REPLY),
        (401, {"error": {"code": "unauthorized", "detail": ""}}, FailureReason.REFUSED),
        (204, None, FailureReason.REFUSED),
        (405, {"detail": "Method Not Allowed"}, FailureReason.REFUSED),
        (500, "boom", FailureReason.REFUSED),
    ],
)
async def test_any_other_answer_fails(
    deployment: Deployment,
    client: Client,
    status: int,
    document: str | dict[str, Any] | None,
    reason: FailureReason,
) -> None:
    """One wrong answer fails discovery as a whole."""
    deployment.peers["agent-a"].answers("status", document, status)
    with pytest.raises(DiscoveryError) as caught:
        await discover(deployment.config, client)

    assert [("agent-a", reason)] == [
        (one.server.name, one.reason) for one in caught.value.failures
    ]


async def test_all_failures_are_told(deployment: Deployment, client: Client) -> None:
    """A server that is down does not hide another one that refuses."""
    deployment.lose("env")
    deployment.peers["policy"].refuses("status", "unauthorized", 401)
    with pytest.raises(DiscoveryError) as caught:
        await discover(deployment.config, client)

    assert {"unreachable", "unauthorized"} == caught.value.codes
    assert ["agent-a", "agent-b", "ipi"] == [one.name for one in caught.value.found]


async def test_no_answer_in_time_fails(
    control: Callable[..., Awaitable[ControlClient]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A status is waited for so long, and no longer."""

    async def never(*_: dict[str, Any] | Callable[..., Any]) -> None:
        await asyncio.Event().wait()

    assert 60 == STATUS_SECONDS
    monkeypatch.setattr(discovery, "STATUS_SECONDS", 0.01)
    client = await control(Loopback({"x": never}))
    with pytest.raises(DiscoveryError) as caught:
        await discover_urls(["http://x"], client)

    assert {"timed_out"} == caught.value.codes


async def test_deployment_without_a_model_is_refused(
    deployment: Deployment, client: Client
) -> None:
    """Its checkpoints would lose token data, so it has to be asked for."""
    del deployment.peers["policy"]
    with pytest.raises(DiscoveryError) as caught:
        await discover(deployment.config, client)

    assert "missing_kind" == caught.value.code
    assert (
        "no participant of kind model (found: environment env, " in caught.value.message
    )
    assert 4 == len(await discover(deployment.config, client, required=()))


async def test_deployment_without_participants(
    deployment: Deployment, client: Client
) -> None:
    """A checkpoint of nobody is refused, whatever is required."""
    relay = {"relay": deployment.config["relay"]}
    with pytest.raises(DiscoveryError) as caught:
        await discover(relay, client, required=())

    assert "no_participant" == caught.value.code


async def test_urls_name_participants_by_instance(
    deployment: Deployment, client: Client
) -> None:
    """Listed servers are known by their instances; a repeated URL is one server."""
    urls = ["http://ipi.test", "http://policy.test/", "http://ipi.test/"]

    assert (
        Participant("policy", "http://policy.test", Kind.MODEL),
        Participant("ipi", "http://ipi.test", Kind.RESOURCES),
    ) == await discover_urls(urls, client)


async def test_listed_servers_have_to_take_part(
    deployment: Deployment, client: Client
) -> None:
    """A URL without control routes is an error: somebody has named it."""
    with pytest.raises(DiscoveryError) as caught:
        await discover_urls(["http://policy.test", "http://relay.test"], client)

    assert [404] == [one.status for one in caught.value.failures]


async def test_listed_servers_need_a_model(client: Client) -> None:
    """The model is required here, too."""
    with pytest.raises(DiscoveryError) as caught:
        await discover_urls(["http://ipi.test"], client)

    assert "missing_kind" == caught.value.code
    assert 1 == len(await discover_urls(["http://ipi.test"], client, required=()))


async def test_two_servers_of_one_name(deployment: Deployment, client: Client) -> None:
    """They would write to one directory."""
    twin = deployment.add("resources", "twin")
    twin.answers("status", {"kind": "resources", "instance": "ipi"})
    with pytest.raises(DiscoveryError) as caught:
        await discover_urls(
            ["http://ipi.test", "http://twin.test"], client, required=()
        )

    assert "duplicate_participant" == caught.value.code
    assert "resources ipi" in caught.value.message


async def test_wrong_token(
    deployment: Deployment, control: Callable[..., Awaitable[ControlClient]]
) -> None:
    """Every participant refuses it, and each refusal is told."""
    client = await control(deployment.network, token="another")
    with pytest.raises(DiscoveryError) as caught:
        await discover(deployment.config, client)

    assert {"unauthorized"} == caught.value.codes
    assert 5 == len(caught.value.failures)
