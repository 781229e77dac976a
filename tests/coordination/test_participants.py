"""Addresses of a deployment's servers."""

from __future__ import annotations

from typing import Any

import pytest

from ipistate.coordination import Kind, Participant, ServerAddress
from ipistate.coordination.participants import addresses
from ipistate.errors import SchemaError


def entry(server_type: str = "resources_servers", **server: Any) -> dict[str, Any]:
    """Return a deployment's entry."""
    return {server_type: {"impl": {"host": "h", "port": 80, **server}}}


def test_every_server_type_is_an_address() -> None:
    """Servers of the four types are found, sorted by name."""
    deployment = {
        "d": entry("responses_api_models"),
        "c": entry("responses_api_agents"),
        "b": entry("environment_servers"),
        "a": entry(entrypoint="app.py"),
    }

    assert [ServerAddress(name, "http://h:80") for name in "abcd"] == [
        *addresses(deployment)
    ]


@pytest.mark.parametrize("other", [None, 7, "text", [], {}, {"datasets": {"x": {}}}])
def test_other_entries_are_no_servers(other: Any) -> None:
    """What is not a server by its form is passed over."""
    assert [] == [*addresses({"x": other})]


def test_ipv6_hosts_stand_in_brackets() -> None:
    """An IPv6 address becomes the host of a URL."""
    assert [ServerAddress("x", "http://[::1]:80")] == [
        *addresses({"x": entry(host="::1")})
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        *[{"host": None}, {"host": 7}, {"host": ""}, {"host": "a b"}, {"host": "u@h"}],
        *[{"port": "80"}, {"port": True}, {"port": 0}, {"port": 65536}],
    ],
)
def test_server_without_host_and_port_is_refused(wrong: dict[str, Any]) -> None:
    """The error names the place in the configuration."""
    with pytest.raises(SchemaError) as caught:
        [*addresses({"x": entry(**wrong)})]

    assert ("invalid_address", "$.x.resources_servers.impl") == (
        caught.value.code,
        caught.value.path,
    )


@pytest.mark.parametrize("url", ["http://h", "https://h:1/base/", "http://[::1]:8000/"])
def test_urls(url: str) -> None:
    """A URL may have a port and a path; the last slash is dropped."""
    assert url.rstrip("/") == ServerAddress("x", url).url


@pytest.mark.parametrize(
    "url",
    ["", "h:80", "ftp://h", "http://", "http://u:p@h", "http://h?x", "http://h#x"],
)
def test_other_urls_are_refused(url: str) -> None:
    """No other scheme, no user that would replace the token, no query."""
    with pytest.raises(SchemaError) as caught:
        ServerAddress("x", url)

    assert "invalid_url" == caught.value.code


def test_names_for_people() -> None:
    """A participant is shown with its kind, its name and its URL."""
    assert "http://h" == str(ServerAddress("http://h", "http://h"))
    assert "x (http://h)" == str(ServerAddress("x", "http://h"))
    assert "agent x (http://h)" == str(Participant("x", "http://h", Kind.AGENT))


def test_ports_beyond_the_last_one() -> None:
    """A URL with a port that no server can have is refused."""
    assert "http://h:65535" == ServerAddress("h", "http://h:65535").url
    with pytest.raises(SchemaError, match="invalid_url"):
        ServerAddress("h", "http://h:65536")
