"""``ipistate tools``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ipistate import TOOLS


if TYPE_CHECKING:
    from click.testing import Result


def test_lists_every_domain(run: Callable[..., Result]) -> None:
    """The list has a line for each domain that offers a tool."""
    lines = run("tools").stdout.splitlines()

    assert len(lines) == 1 + sum(len(one.domains) for one in TOOLS.values())


def test_one_domain(run: Callable[..., Result]) -> None:
    """--domain leaves only the tools of that domain."""
    lines = run("tools", "--domain", "hr").stdout.splitlines()[1:]

    assert {line.split()[0] for line in lines} == {"hr"}


def test_json_gives_function_definitions(
    document: Callable[..., Any],
) -> None:
    """With --json the output is what a request to the Responses API carries."""
    definitions = document("tools", "--json")

    assert [one["name"] for one in definitions] == list(TOOLS)
    assert {tuple(one) for one in definitions} == {
        ("type", "name", "description", "parameters", "strict")
    }


def test_json_of_one_domain(
    document: Callable[..., Any],
) -> None:
    """--domain applies to the definitions as well."""
    names = [one["name"] for one in document("tools", "--domain", "hr", "--json")]

    assert names == [name for name, one in TOOLS.items() if "hr" in one.domains]


def test_unknown_domain(run: Callable[..., Result]) -> None:
    """A domain that does not exist is a usage error that lists the others."""
    result = run("tools", "--domain", "space")

    assert result.exit_code == 2
    assert "healthcare" in result.stderr
