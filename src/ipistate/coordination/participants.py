"""The servers that take part in a checkpoint, and the orders in which they are asked.

The orders are those of docs/reference/control-plane.md, section 5.1.
"""

from __future__ import annotations

import re

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import attrs

from ipistate.errors import SchemaError, json_path, preview


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SERVER_TYPES: Final = (
    "environment_servers",
    "responses_api_models",
    "responses_api_agents",
    "resources_servers",
)
"""Members of a deployment's entry that stand for a server."""

MAX_PORT: Final = 65535

# No user name: it would replace the bearer token.
_URL: Final = re.compile(
    r"https?://(?:\[[0-9A-Fa-f:.]+\]|[^\s/?#@:\[\]]+)(?::(\d{1,5}))?(?:/[^\s?#]*)?"
)


class Kind(StrEnum):
    """A participant's role, in the order of a prepare."""

    ENVIRONMENT = "environment"
    MODEL = "model"
    AGENT = "agent"
    RESOURCES = "resources"


def _check_url(_: object, __: object, value: str) -> None:
    found = _URL.fullmatch(value)
    if found is None or int(found[1] or 1) > MAX_PORT:
        message = "a server's URL is http(s)://host[:port][/path]"
        raise SchemaError("invalid_url", message, preview=preview(value))


def _without_slash(url: str) -> str:
    return url.rstrip("/")


@attrs.frozen
class ServerAddress:
    """A server by its name in the deployment, and where it listens.

    Raises:
        SchemaError: ``invalid_url``.
    """

    name: str
    url: str = attrs.field(converter=_without_slash, validator=_check_url)

    def __str__(self) -> str:
        return self.url if self.name == self.url else f"{self.name} ({self.url})"


@attrs.frozen
class Participant(ServerAddress):
    """A server that owns state which checkpoints keep."""

    kind: Kind

    def __str__(self) -> str:
        return f"{self.kind} {self.name} ({self.url})"


StageOrder: TypeAlias = tuple[frozenset[Kind], ...]
Stage: TypeAlias = tuple[Participant, ...]
"""Participants that are asked at the same time."""

PREPARE: Final[StageOrder] = tuple(frozenset({kind}) for kind in Kind)
"""Callers before callees: a server drains only when nothing calls it any more.

Environments park first; resources go last, since agents call them until they park.
"""

RESUME: Final[StageOrder] = PREPARE[::-1]
"""Nothing reopens before the servers that it calls."""

AT_ONCE: Final[StageOrder] = (frozenset(Kind),)
"""All are frozen already, or fresh, so that none waits for another."""

RETIRE: Final[StageOrder] = (
    frozenset({Kind.ENVIRONMENT}),
    frozenset({Kind.AGENT}),
    frozenset({Kind.MODEL, Kind.RESOURCES}),
)
"""Callers before callees, so that nothing calls a server that has freed the attempt."""

_RANK: Final = {kind: rank for rank, kind in enumerate(Kind)}


def ordered(participants: Iterable[Participant]) -> tuple[Participant, ...]:
    """Sort participants by the order of a prepare, then by name."""
    return tuple(sorted(participants, key=lambda one: (_RANK[one.kind], one.name)))


def stages(order: StageOrder, participants: Iterable[Participant]) -> tuple[Stage, ...]:
    """Split participants into the stages of an order; empty stages are left out."""
    in_order = ordered(participants)
    split = (tuple(p for p in in_order if p.kind in kinds) for kinds in order)
    return tuple(stage for stage in split if stage)


def addresses(deployment: Mapping[str, Any]) -> Iterator[ServerAddress]:
    """Read the servers of a deployment's resolved configuration, by name.

    An entry is ``{server type: {implementation: {"host": ..., "port": ...}}}``; entries
    of other forms are no servers (docs/reference/control-plane.md, section 5.2).

    Raises:
        SchemaError: ``invalid_address``: a server without a usable host and port.
    """
    for name, entry in sorted(deployment.items()):
        for path, server in _servers(entry):
            yield _address(name, server, (name, *path))


def _servers(entry: object) -> Iterator[tuple[tuple[str, str], object]]:
    for server_type in SERVER_TYPES:
        implementations = _members(_members(entry).get(server_type))
        for implementation, server in implementations.items():
            yield (server_type, implementation), server


def _members(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _address(name: str, server: object, path: tuple[str, ...]) -> ServerAddress:
    host, port = (_members(server).get(part) for part in ("host", "port"))
    if not isinstance(host, str) or type(port) is not int or not 0 < port <= MAX_PORT:
        message = "a server has a host and a port"
        raise SchemaError("invalid_address", message, json_path(path), preview(server))
    shown = f"[{host}]" if ":" in host else host
    try:
        return ServerAddress(name, f"http://{shown}:{port}")
    except SchemaError as error:
        raise SchemaError(
            "invalid_address", error.message, json_path(path), error.preview
        ) from None
