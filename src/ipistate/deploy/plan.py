"""Which servers a deployment has, where they listen, and who calls whom: a value."""

from __future__ import annotations

import re

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, cast

import attrs

from ipistate.coordination import MAX_PORT, ServerAddress
from ipistate.errors import SchemaError, json_path, preview
from ipistate.kernel import refuse, structure
from ipistate.policies import Api
from ipistate.protocol import SAFE_NAME


if TYPE_CHECKING:
    from ipistate.kernel import JsonObject

LOOPBACK: Final = "127.0.0.1"


def _check_port(_: object, field: attrs.Attribute[Any], port: int) -> None:
    if not 1 <= port <= MAX_PORT:
        raise refuse("invalid_port", f"a port is from 1 to {MAX_PORT}", port, field)


def _check_api(_: object, field: attrs.Attribute[Any], api: str) -> None:
    if api not in {*Api}:
        raise refuse("unknown_api", f"an API is one of {', '.join(Api)}", api, field)


@attrs.frozen(kw_only=True)
class Listening:
    """Where a server listens."""

    host: str = LOOPBACK
    port: int = attrs.field(validator=_check_port)

    callees: ClassVar[tuple[str, ...]] = ()
    """The members that name a server which this one calls, or have its URL."""
    is_participant: ClassVar[bool] = True

    @property
    def url(self) -> str:
        """Its address for callers on this machine, or where its host says."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{shown}:{self.port}"


@attrs.frozen(kw_only=True)
class ResourcesPlan(Listening):
    """A resources server: sessions, tools, verdicts."""

    effects: bool = False


@attrs.frozen(kw_only=True)
class ModelPlan(Listening):
    """A policy model in front of an endpoint."""

    upstream: str
    has_ledger: bool = True
    """Captured calls have their rows in the deployment's directory."""
    captures_tokens: bool = False
    """The endpoint is a worker that stages the tokens of calls."""
    cuts_generations: bool = False
    """And that cuts them for a checkpoint, with the deployment's token."""
    reply_seconds: float = 3600.0

    callees: ClassVar[tuple[str, ...]] = ("upstream",)


@attrs.frozen(kw_only=True)
class AgentPlan(Listening):
    """An agent: plays rows with the tools of one server and the words of another."""

    resources: str
    model: str
    model_name: str = "policy"
    api: str = attrs.field(default=Api.RESPONSES.value, validator=_check_api)
    temperature: float | None = None
    max_output_tokens: int | None = None
    max_steps: int = 50
    episode_seconds: float | None = None

    callees: ClassVar[tuple[str, ...]] = ("resources", "model")


@attrs.frozen(kw_only=True)
class EnvironmentPlan(Listening):
    """An environment server: plays episodes with an agent and a resources server."""

    resources: str
    agent: str
    episode_seconds: float | None = None

    callees: ClassVar[tuple[str, ...]] = ("resources", "agent")


@attrs.frozen(kw_only=True)
class RelayPlan(Listening):
    """A relay of flat rows in front of an agent."""

    agent: str

    callees: ClassVar[tuple[str, ...]] = ("agent",)
    is_participant: ClassVar[bool] = False


@attrs.frozen(kw_only=True)
class WorkerPlan(Listening):
    """An inference worker in front of a llama.cpp server."""

    engine: str
    model_name: str = "llama.cpp"
    weight_version: int = 1

    callees: ClassVar[tuple[str, ...]] = ("engine",)
    is_participant: ClassVar[bool] = False


@attrs.frozen(kw_only=True)
class LlamaPlan(Listening):
    """A llama.cpp server in a process of its own; needs the package ``xllamacpp``."""

    weights: str
    """A GGUF file."""
    slots: int = 4
    """Calls at a time."""
    slot_tokens: int = 2_048

    is_participant: ClassVar[bool] = False


@attrs.frozen(kw_only=True)
class ScriptedPlan(Listening):
    """A model that plays the built-in rows."""

    seconds: float = 0.0
    seed: int = 0

    is_participant: ClassVar[bool] = False


AppPlan: TypeAlias = (
    ResourcesPlan
    | ModelPlan
    | AgentPlan
    | EnvironmentPlan
    | RelayPlan
    | ScriptedPlan
    | WorkerPlan
)
"""Servers that are applications of ours."""

ServerPlan: TypeAlias = AppPlan | LlamaPlan

PLANS: Final[Mapping[str, type[ServerPlan]]] = MappingProxyType(
    {
        "scripted": ScriptedPlan,
        "llama": LlamaPlan,
        "worker": WorkerPlan,
        "resources": ResourcesPlan,
        "model": ModelPlan,
        "agent": AgentPlan,
        "environment": EnvironmentPlan,
        "relay": RelayPlan,
    }
)
"""By kind, callees before callers."""


@attrs.frozen(kw_only=True)
class DeploymentPlan:
    """The servers of a deployment by name; what they call is known by its URL."""

    servers: Mapping[str, ServerPlan]

    def kind(self, name: str) -> str:
        """Return the kind of a server."""
        server = type(self.servers[name])
        return next(kind for kind, one in PLANS.items() if one is server)

    def in_order(self) -> tuple[str, ...]:
        """Name the servers, callees before callers."""
        ranks = [*PLANS]
        return tuple(
            sorted(self.servers, key=lambda name: ranks.index(self.kind(name)))
        )

    def participants(self) -> tuple[ServerAddress, ...]:
        """Return the servers that take part in checkpoints."""
        return tuple(
            ServerAddress(name, server.url)
            for name, server in self.servers.items()
            if server.is_participant
        )


def plan_of(document: JsonObject) -> DeploymentPlan:
    """Read a deployment: ``{"servers": {name: {"kind": ..., "port": ..., ...}}}``.

    Raises:
        SchemaError: ``no_servers``, ``invalid_name``, ``unknown_kind``,
            ``unknown_server``, ``address_taken``, or what is wrong with a member; with
            the path.
    """
    listed = document.get("servers")
    if not isinstance(listed, Mapping) or not listed:
        message = "a deployment has servers, each under its name"
        raise SchemaError("no_servers", message, "$.servers", preview(listed))
    read = {name: _server(name, entry) for name, entry in listed.items()}
    _check_addresses(read.items())
    return DeploymentPlan(
        servers={name: _linked(name, server, read) for name, server in read.items()}
    )


def _server(name: str, entry: object) -> ServerPlan:
    path = ("servers", name)
    members = (
        dict(cast("Mapping[str, Any]", entry)) if isinstance(entry, Mapping) else {}
    )
    kind = members.pop("kind", None)
    plan = PLANS.get(str(kind))
    if plan is None:
        message = f"a server's kind is one of {', '.join(PLANS)}"
        raise SchemaError(
            "unknown_kind", message, json_path((*path, "kind")), preview(kind)
        )
    if SAFE_NAME.fullmatch(name) is None:
        message = f"a server's name matches ^{SAFE_NAME.pattern}$"
        raise SchemaError("invalid_name", message, json_path(path), preview(name))
    try:
        return structure(members, plan)
    except SchemaError as error:
        raise error.below(*path) from None


def _check_addresses(servers: Iterable[tuple[str, ServerPlan]]) -> None:
    taken: dict[tuple[str, int], str] = {}
    for name, server in servers:
        other = taken.setdefault((server.host, server.port), name)
        if other != name:
            message = f"{other} listens on {server.host}:{server.port} already"
            raise SchemaError("address_taken", message, json_path(("servers", name)))


def _linked(
    name: str, server: ServerPlan, servers: Mapping[str, ServerPlan]
) -> ServerPlan:
    urls: Any = {
        member: _url(getattr(server, member), servers, ("servers", name, member))
        for member in server.callees
    }
    return attrs.evolve(server, **urls)


_IS_URL: Final = re.compile(r"https?://")


def _url(callee: str, servers: Mapping[str, ServerPlan], path: tuple[str, ...]) -> str:
    if callee in servers:
        return servers[callee].url
    if _IS_URL.match(callee):
        try:
            return ServerAddress(callee, callee).url
        except SchemaError as error:
            raise SchemaError(error.code, error.message, json_path(path)) from None
    message = "it is neither the name of a server here nor a URL"
    raise SchemaError("unknown_server", message, json_path(path), preview(callee))
