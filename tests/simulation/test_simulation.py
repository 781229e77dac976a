"""Whole schedules: everything at once, in virtual time, from one seed."""

from __future__ import annotations

import os
import subprocess
import sys

from collections import Counter
from pathlib import Path

import pytest

from simulator.faults import FAULTS
from simulator.ledger import Violation
from simulator.simulation import Simulation


pytestmark = pytest.mark.once


EVENTS = {"ci": 60_000, "deep": 1_000_000}.get(
    os.environ.get("HYPOTHESIS_PROFILE", "dev"), 20_000
)
BUDGET = 200_000
"""Events within which each fault must be found; most need a few thousand."""

HAPPENS = [
    "action Install",
    "action StopWrite",
    "callers gone",
    "checkpoints published",
    "crashes",
    "disconnects",
    "duplicates",
    "effects lost with a crash",
    "effects restored",
    "forks",
    "forks refused",
    "leases run out",
    "refused with checkpoint_conflict",
    "refused with deadline_exceeded",
    "refused with invalid_checkpoint_state",
    "refused with invalid_phase",
    "refused with stale_checkpoint",
    "replies repeated",
    "requests refused",
    "restores",
    "sessions deleted",
    "sessions retired",
    "sessions swept",
]


def run(events: int, seed: int = 1) -> Counter[str]:
    """Run schedules one after the other; returns how many of what happened."""
    tally: Counter[str] = Counter()
    while tally["events"] < events:
        simulation = Simulation(seed)
        tally += simulation.run()
        tally["events"] += simulation.events
        seed += 1
    return tally


def test_schedules_keep_every_invariant() -> None:
    """No schedule of requests, calls, faults and crashes breaks a rule."""
    tally = run(EVENTS)

    assert [] == [name for name in HAPPENS if not tally[name]]


def test_a_seed_reproduces_a_run() -> None:
    """The same seed gives the same run, another seed another one."""
    first, again, other = (Simulation(seed, 1_000) for seed in (5, 5, 6))

    assert first.run() == again.run() != other.run()
    assert first.digest == again.digest != other.digest


def test_a_run_does_not_depend_on_hashing() -> None:
    """The order of sets of strings, new in every process, decides nothing."""
    text = "import simulator.simulation as s; r = s.Simulation(7); r.run(); print(r.digest)"

    paths = os.pathsep.join(sys.path)
    digests = {
        subprocess.run(
            [sys.executable, "-c", text],
            cwd=Path(__file__).parent,
            env={**os.environ, "PYTHONHASHSEED": hashing, "PYTHONPATH": paths},
            check=True,
            capture_output=True,
        ).stdout
        for hashing in ("1", "2", "3")
    }

    assert 1 == len(digests)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str) -> None:
    """A machine with one broken line does not get through."""
    with FAULTS[name].injected(), pytest.raises(Violation):
        run(BUDGET)
