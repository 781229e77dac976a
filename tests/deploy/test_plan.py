"""A deployment as a value: what it refuses, and how names become addresses."""

from __future__ import annotations

from typing import Any

import pytest

from ipistate.deploy import AgentPlan, ModelPlan, from_gym, is_gym_mapping, plan_of
from ipistate.errors import SchemaError
from ipistate.kernel import JsonObject, freeze


def document(**changes: Any) -> JsonObject:
    """Return a deployment of four servers, some of them changed or left out (None)."""
    servers: dict[str, Any] = {
        "ipi": {"kind": "resources", "port": 8001},
        "policy_model": {"kind": "model", "port": 8002, "upstream": "http://h:1/v1"},
        "agent": {
            "kind": "agent",
            "port": 8003,
            "resources": "ipi",
            "model": "policy_model",
        },
        "environment": {
            "kind": "environment",
            "port": 8004,
            "resources": "ipi",
            "agent": "agent",
        },
    }
    for name, members in changes.items():
        servers[name] = members and {**servers.get(name, {}), **members}
    found = freeze({"servers": {n: one for n, one in servers.items() if one}})
    assert isinstance(found, JsonObject)
    return found


def test_names_become_addresses() -> None:
    """What a server calls is known by its URL; others may be given by theirs."""
    plan = plan_of(document())
    model, agent = plan.servers["policy_model"], plan.servers["agent"]
    assert isinstance(model, ModelPlan)
    assert isinstance(agent, AgentPlan)

    assert ("http://h:1/v1", "http://127.0.0.1:8001") == (
        model.upstream,
        agent.resources,
    )
    assert ("ipi", "policy_model", "agent", "environment") == plan.in_order()


def test_who_takes_part_in_checkpoints() -> None:
    """A relay, a scripted model and a worker do not."""
    more = {
        "relay": {"kind": "relay", "port": 8005, "agent": "agent"},
        "scripted": {"kind": "scripted", "port": 8006},
        "worker": {"kind": "worker", "port": 8007, "engine": "http://h:2"},
    }
    plan = plan_of(document(**more))

    assert {"ipi", "policy_model", "agent", "environment"} == {
        one.name for one in plan.participants()
    }


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "two on one port": (
        {"agent": {"port": 8001}},
        "address_taken",
        "$.servers.agent",
    ),
    "an unknown kind": (
        {"agent": {"kind": "oracle"}},
        "unknown_kind",
        "$.servers.agent.kind",
    ),
    "a callee that is not there": (
        {"ipi": None},
        "unknown_server",
        "$.servers.agent.resources",
    ),
    "no port": ({"x": {"kind": "resources"}}, "missing_member", "$.servers.x.port"),
    "a port that is none": (
        {"ipi": {"port": 70_000}},
        "invalid_port",
        "$.servers.ipi.port",
    ),
    "an unknown API": (
        {"agent": {"api": "smoke"}},
        "unknown_api",
        "$.servers.agent.api",
    ),
    "a port as text": ({"ipi": {"port": "1"}}, "wrong_type", "$.servers.ipi.port"),
    "an unknown member": (
        {"ipi": {"colour": "red"}},
        "unknown_member",
        "$.servers.ipi.colour",
    ),
    "a name with a slash": (
        {"a/b": {"kind": "resources", "port": 1}},
        "invalid_name",
        '$.servers["a/b"]',
    ),
    "a URL that is none": (
        {"agent": {"model": "http://"}},
        "invalid_url",
        "$.servers.agent.model",
    ),
}


@pytest.mark.parametrize(("changes", "code", "path"), REFUSED.values(), ids=REFUSED)
def test_deployments_that_are_refused(
    changes: dict[str, Any], code: str, path: str
) -> None:
    """The code is stable, and the path leads to what is wrong."""
    with pytest.raises(SchemaError) as caught:
        plan_of(document(**changes))

    assert (code, path) == (caught.value.code, caught.value.path)


@pytest.mark.parametrize("servers", [{}, None, [], "ipi"])
def test_a_deployment_has_servers(servers: Any) -> None:
    """An empty one is refused, and one that is no mapping."""
    with pytest.raises(SchemaError, match="no_servers"):
        plan_of(JsonObject({"servers": freeze(servers)}))


def test_the_reference_s_mapping_says_who_is_where() -> None:
    """Kinds from server types, callees from references; the rest is left aside."""
    at = {"host": "127.0.0.1", "entrypoint": "app.py"}
    gym = freeze(
        {
            "ipi": {"resources_servers": {"ipi": {**at, "port": 8001}}},
            "policy_model": {
                "responses_api_models": {
                    "vllm": {**at, "port": 8002, "base_url": ["http://h:1/v1"]}
                }
            },
            "agent": {
                "responses_api_agents": {
                    "simple": {
                        **at,
                        "port": 8003,
                        "resources_server": {"type": "x", "name": "ipi"},
                        "model_server": {"type": "x", "name": "policy_model"},
                    }
                }
            },
            "environment": {
                "environment_servers": {
                    "e": {
                        **at,
                        "port": 8004,
                        "resources_server": {"name": "ipi"},
                        "agent_server": {"name": "agent"},
                    }
                }
            },
            "head_server": {"host": "127.0.0.1", "port": 1},
        }
    )
    assert isinstance(gym, JsonObject)

    assert is_gym_mapping(gym)
    assert not is_gym_mapping(document())
    assert plan_of(document()) == plan_of(from_gym(gym))
