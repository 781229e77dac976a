"""Every law of session state, for every domain, and a stateful machine over each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hypothesis import given, settings
from hypothesis import strategies as st

from ipistate.testing import LAWS, scenarios, world_machine
from ipistate.tools import RECORDS, TOOLS
from ipistate.tools.registry import Tool


DOMAINS = sorted(RECORDS)


def tools_of(domain: str) -> dict[str, Tool]:
    """Return the tools that a domain offers."""
    return {name: one for name, one in TOOLS.items() if domain in one.domains}


@pytest.mark.parametrize("domain", DOMAINS)
@given(data=st.data())
def test_laws_of_domain(domain: str, data: st.DataObject) -> None:
    """Every law holds in sound and in damaged worlds of each domain."""
    scenario = data.draw(scenarios(RECORDS[domain], tools_of(domain)))
    for law in LAWS:
        law(scenario)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@given(data=st.data())
def test_law_across_domains(law: Callable[..., None], data: st.DataObject) -> None:
    """Each law holds when tools are called in worlds of other domains."""
    domain = data.draw(st.sampled_from(DOMAINS))
    law(data.draw(scenarios(RECORDS[domain])))


@pytest.mark.parametrize("domain", DOMAINS)
def test_machine(domain: str) -> None:
    """A branch is what its log gives, whatever happens to other branches."""
    machine = world_machine(RECORDS[domain], tools_of(domain))
    case = machine.TestCase()
    examples = max(10, settings().max_examples // 10)
    case.settings = settings(stateful_step_count=12, max_examples=examples)  # type: ignore[misc]
    case.runTest()
