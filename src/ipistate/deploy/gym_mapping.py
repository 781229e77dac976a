"""A deployment as NeMo Gym's resolved configuration has it: who is where, and who calls whom.

An entry is ``{name: {server type: {implementation: {"host": ..., "port": ..., ...}}}}``;
see docs/reference/control-plane.md, section 5.2. What has no use here is left aside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from ipistate.kernel import JsonObject


_KINDS: Final = {
    "resources_servers": "resources",
    "responses_api_models": "model",
    "responses_api_agents": "agent",
    "environment_servers": "environment",
}
_REFERENCES: Final = {
    "resources_server": "resources",
    "model_server": "model",
    "agent_server": "agent",
}
"""Members that name another server, as ``{"type": ..., "name": ...}``."""
_SAME: Final = {
    "base_url": "upstream",
    "openai_base_url": "upstream",
    "max_steps": "max_steps",
}
_CALLED: Final = {
    "resources": (),
    "model": ("upstream",),
    "agent": ("resources", "model", "max_steps"),
    "environment": ("resources", "agent"),
}
"""The members that a kind has beside its address."""


def is_gym_mapping(document: JsonObject) -> bool:
    """Tell whether a document is one, and not a deployment's own form."""
    return "servers" not in document and any(_entries(document))


def from_gym(document: JsonObject) -> JsonObject:
    """Write such a configuration in the form that ``plan_of`` reads."""
    return JsonObject({"servers": JsonObject(_entries(document))})


def _entries(document: Mapping[str, Any]) -> Iterator[tuple[str, JsonObject]]:
    for name, entry in document.items():
        for server_type, kind in _KINDS.items():
            for server in _members(_members(entry).get(server_type)).values():
                yield name, _server(kind, _members(server))


def _server(kind: str, given: Mapping[str, Any]) -> JsonObject:
    found = {name: given[name] for name in ("host", "port") if name in given}
    for member, own in _REFERENCES.items():
        if own in _CALLED[kind] and "name" in _members(given.get(member)):
            found[own] = given[member]["name"]
    for member, own in _SAME.items():
        if own in _CALLED[kind] and member in given:
            found[own] = _first(given[member])
    return JsonObject({"kind": kind, **found})


def _first(value: object) -> object:
    # An endpoint may be a list of replicas; one of them answers as well.
    return (
        next(iter(cast("list[object]", value)), None)
        if isinstance(value, list)
        else value
    )


def _members(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
