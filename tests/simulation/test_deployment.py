"""The whole deployment at once, its real servers in virtual time, from one seed."""

from __future__ import annotations

import os

import pytest

from deployed.faults import DEPLOYMENT_FAULTS
from deployed.oracle import DeploymentViolation
from deployed.schedules import TOPOLOGIES, quiet, run, world_of


pytestmark = pytest.mark.once

EVENTS = {"ci": 40_000, "deep": 500_000}.get(
    os.environ.get("HYPOTHESIS_PROFILE", "dev"), 20_000
)
BUDGET = 150_000
"""Events within which each fault must be found."""

HAPPENS = [
    "calls of the model",
    "checkpoints",
    "crashes",
    "leases left to run out",
    "restores",
    "retired",
    "verdicts",
]


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_worlds_keep_every_rule(topology: str) -> None:
    """No schedule of rollouts, checkpoints, losses and deaths breaks a rule."""
    tally = run(EVENTS, 1, topology)

    assert [] == [name for name in HAPPENS if not tally[name]]
    assert tally["results"] == tally["lineages"] > 50


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_seed_reproduces_a_world(topology: str) -> None:
    """The same seed gives the same world, another seed another one."""
    with quiet():
        first, again, other = (world_of(seed, topology, 1_500) for seed in (5, 5, 6))

        assert first.run() == again.run() != other.run()
    assert (first.events, first.loop.now) == (again.events, again.loop.now)


@pytest.mark.parametrize("name", DEPLOYMENT_FAULTS)
def test_a_fault_of_the_deployment_is_found(name: str) -> None:
    """A deployment with one broken line does not get through."""
    topology, fault = DEPLOYMENT_FAULTS[name]
    with fault.injected(), pytest.raises(DeploymentViolation):
        run(BUDGET, 1, topology)
