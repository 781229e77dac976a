"""One server of a deployment as a process of its own.

``python -m ipistate.deploy.process`` reads one line of JSON from its standard input and
serves until that input ends, which it does even if the parent is killed.
"""

from __future__ import annotations

import sys

from pathlib import Path
from typing import TYPE_CHECKING, cast

import attrs

from starlette.datastructures import Secret

from ipistate.clients import HttpClient
from ipistate.deploy.agent_server import create_agent_app
from ipistate.deploy.agent_shell import AgentSettings
from ipistate.deploy.environment_server import (
    EnvironmentSettings,
    create_environment_app,
)
from ipistate.deploy.llama_engine import LlamaEngine
from ipistate.deploy.llama_server import serve_llama
from ipistate.deploy.model_server import create_model_app
from ipistate.deploy.model_shell import ModelSettings
from ipistate.deploy.plan import (
    PLANS,
    AgentPlan,
    EnvironmentPlan,
    LlamaPlan,
    ModelPlan,
    RelayPlan,
    ResourcesPlan,
    ScriptedPlan,
    WorkerPlan,
)
from ipistate.deploy.relay import create_relay_app
from ipistate.deploy.scripted_model import ScriptedModel, builtin_scripts
from ipistate.deploy.server_process import ServerFailedError, end_with_input
from ipistate.deploy.worker_server import WorkerSettings, create_worker_app
from ipistate.kernel import JsonObject, decode, encode, structure, unstructure
from ipistate.policies import Api, Endpoint, PolicyOptions, Sampling, policy_of
from ipistate.server import (
    LogForm,
    LogLevel,
    ServerSettings,
    configure,
    create_app,
    run,
)


if TYPE_CHECKING:
    from starlette.applications import Starlette

    from ipistate.agents import Policy
    from ipistate.deploy.plan import AppPlan, ServerPlan


@attrs.frozen(kw_only=True)
class ServerOrder:
    """What a process is told to serve."""

    name: str
    kind: str
    plan: JsonObject
    """A ``ServerPlan`` of that kind, as a document."""
    root: str
    """The deployment's directory: ledgers are below it."""
    token: str = attrs.field(repr=False)
    """Of the control plane."""

    @classmethod
    def of(
        cls, name: str, kind: str, plan: ServerPlan, root: Path, token: str
    ) -> ServerOrder:
        """Order a server of a deployment."""
        document = unstructure(plan)
        return cls(name=name, kind=kind, plan=document, root=str(root), token=token)

    def to_line(self) -> bytes:
        """Write the line for the process's standard input."""
        return encode(unstructure(self)) + b"\n"

    @property
    def settings(self) -> ServerSettings:
        """Return what all servers have."""
        return ServerSettings(
            instance_name=self.name, checkpoint_token=Secret(self.token)
        )

    def server(self) -> ServerPlan:
        """Read the plan."""
        return structure(self.plan, PLANS[self.kind])


def serve_order(order: ServerOrder) -> None:
    """Serve until a signal ends the process.

    Raises:
        ServerFailedError: The engine of a llama server cannot serve.
    """
    plan = order.server()
    if isinstance(plan, LlamaPlan):
        serve_llama(plan)
    run(order.settings, plan.host, plan.port, app=_application(order, plan))


def _application(order: ServerOrder, plan: AppPlan) -> Starlette:
    settings = order.settings
    match plan:
        case ResourcesPlan():
            return create_app(attrs.evolve(settings, effects=plan.effects))
        case ModelPlan():
            return create_model_app(_model(order, plan))
        case AgentPlan():
            return _agent_app(settings, plan)
        case EnvironmentPlan():
            return create_environment_app(
                EnvironmentSettings(
                    server=settings,
                    resources_url=plan.resources,
                    agent_url=plan.agent,
                    episode_seconds=plan.episode_seconds,
                )
            )
        case RelayPlan():
            return create_relay_app(plan.agent, max_body_bytes=settings.max_body_bytes)
        case WorkerPlan():
            return _worker_app(order, plan)
        case ScriptedPlan():
            return ScriptedModel(builtin_scripts(), plan.seconds, plan.seed).app


def _model(order: ServerOrder, plan: ModelPlan) -> ModelSettings:
    ledger = Path(order.root) / "ledgers" / order.name if plan.has_ledger else None
    return ModelSettings(
        server=order.settings,
        upstream_url=plan.upstream,
        ledger_dir=ledger,
        captures_tokens=plan.captures_tokens,
        cut_token=Secret(order.token) if plan.cuts_generations else None,
        reply_seconds=plan.reply_seconds,
    )


def _worker_app(order: ServerOrder, plan: WorkerPlan) -> Starlette:
    settings = WorkerSettings(
        token_store=Path(order.root) / "tokens" / order.name,
        cut_token=Secret(order.token),
        max_body_bytes=order.settings.max_body_bytes,
    )
    client = HttpClient(idle_seconds=0)
    engine = LlamaEngine(plan.engine, client, plan.model_name, plan.weight_version)
    return create_worker_app(settings, engine, beside=[client])


def _agent_app(settings: ServerSettings, plan: AgentPlan) -> Starlette:
    sampling = Sampling(
        temperature=plan.temperature, max_output_tokens=plan.max_output_tokens
    )
    endpoint = Endpoint(
        url=f"{plan.model}/v1",
        model=plan.model_name,
        api=Api(plan.api),
        sampling=sampling,
        concurrency=10_000,
    )
    opened = policy_of("openai", PolicyOptions(endpoint=endpoint))
    chosen = AgentSettings(
        server=settings,
        resources_url=plan.resources,
        max_steps=plan.max_steps,
        episode_seconds=plan.episode_seconds,
        names_episodes=True,
    )
    # It is not open yet, but is the very object that will be.
    return create_agent_app(chosen, cast("Policy", opened), beside=[opened])


def main() -> None:
    """Serve until the input ends."""
    configure(LogForm.TEXT, LogLevel.ERROR)
    given = sys.stdin.buffer
    order = structure(decode(given.readline()), ServerOrder)
    end_with_input()
    try:
        serve_order(order)
    except ServerFailedError as error:
        raise SystemExit(f"ipistate: {error}") from error


if __name__ == "__main__":
    main()
