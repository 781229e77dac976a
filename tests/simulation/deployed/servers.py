"""The servers of the deployment, as ``ipistate deploy`` builds them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import attrs

from starlette.datastructures import Secret

from deployed.network import Host, SimulatedClient
from deployed.virtual_loop import Life, context_of
from ipistate.deploy import (
    AgentSettings,
    EnvironmentSettings,
    ModelSettings,
    create_agent_app,
    create_environment_app,
    create_model_app,
)
from ipistate.policies import Api, Endpoint
from ipistate.policies.openai import OpenAIPolicy
from ipistate.server import ServerSettings, create_app


if TYPE_CHECKING:
    from deployed.network import Network
    from deployed.virtual_loop import VirtualLoop

TOKEN = "a-token"
GRACE = 20.0

ENVIRONMENT, AGENT, MODEL, RESOURCES = "environment", "agent", "policy_model", "ipi"
NAMES = {
    "native": (ENVIRONMENT, AGENT, MODEL, RESOURCES),
    "relay": (AGENT, MODEL, RESOURCES),
}
ENTRY = {"native": ENVIRONMENT, "relay": AGENT}


class Clocks(TypedDict):
    """The clocks of a server, by the names of its parameters."""

    clock: Callable[[], float]
    steady: Callable[[], float]


@attrs.frozen
class Site:
    """What servers are built from."""

    loop: VirtualLoop
    network: Network
    root: Path

    def start(self, name: str) -> tuple[Life, Any]:
        """Start a fresh process, and return its life and its participant's shell."""
        life = Life(name)
        app: Any = context_of(life).run(_BUILD[name], self)
        self.network.hosts[name] = Host(life, app)
        shell = app.state.shell
        return life, getattr(shell, "machine", shell)

    def settings(self, name: str) -> ServerSettings:
        """Return what all servers have."""
        return ServerSettings(
            instance_name=name,
            checkpoint_token=Secret(TOKEN),
            lease_grace_seconds=GRACE,
        )

    @property
    def clocks(self) -> Clocks:
        """The clocks of a server."""
        return {"clock": self.loop.time, "steady": self.loop.time}

    def client(self) -> SimulatedClient:
        """Return connections through the network."""
        return SimulatedClient(self.network)


def _environment(site: Site) -> Any:
    settings = EnvironmentSettings(
        server=site.settings(ENVIRONMENT),
        resources_url=f"http://{RESOURCES}",
        agent_url=f"http://{AGENT}",
    )
    return create_environment_app(settings, client=site.client(), **site.clocks)


def _agent(site: Site) -> Any:
    endpoint = Endpoint(url=f"http://{MODEL}/v1", model="m", api=Api.RESPONSES)
    policy = OpenAIPolicy(endpoint)
    vars(policy)["_wire"]._client = site.client()
    settings = AgentSettings(
        server=site.settings(AGENT),
        resources_url=f"http://{RESOURCES}",
        names_episodes=True,
    )
    return create_agent_app(settings, policy, client=site.client(), **site.clocks)


def _model(site: Site) -> Any:
    settings = ModelSettings(
        server=site.settings(MODEL),
        upstream_url="http://endpoint/v1",
        ledger_dir=site.root / "ledger",
        captures_tokens=True,
    )
    return create_model_app(settings, client=site.client(), **site.clocks)


def _resources(site: Site) -> Any:
    return create_app(site.settings(RESOURCES), **site.clocks)


_BUILD = {
    ENVIRONMENT: _environment,
    AGENT: _agent,
    MODEL: _model,
    RESOURCES: _resources,
}
