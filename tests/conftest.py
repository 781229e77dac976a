"""Hypothesis profiles, the recorded behaviour, and a summary of what it proved."""

from __future__ import annotations

import json
import lzma
import os
import re
import signal
import sys

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from evidence import Evidence, counting
from hypothesis import HealthCheck, settings


settings.register_profile("dev", max_examples=30, deadline=None)
settings.register_profile(
    "ci", max_examples=100, deadline=None, derandomize=True, print_blob=True
)
settings.register_profile(
    "sample", max_examples=40, deadline=None, derandomize=True, print_blob=True
)
settings.register_profile(
    "deep",
    max_examples=10_000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "mutation", max_examples=25, deadline=None, derandomize=True, database=None
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "dev")
settings.load_profile(PROFILE)
if PROFILE == "mutation":
    # A mutated function is called through two others, and values are 200 levels deep.
    sys.setrecursionlimit(5000)

# A shell has what it runs in the background ignore Ctrl-C, and so would our processes.
signal.signal(signal.SIGINT, signal.default_int_handler)

CHECKLIST = re.compile(r"::test_(d[0-9]{2}_\w+)")
"""Tests named after a line of the checkpoint protocol's conformance checklist."""


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the directory of the files that tests read."""
    return Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def conformance(data: Path) -> Callable[..., list[dict[str, Any]]]:
    """Return a reader of recorded behaviour: a file is unpacked when first asked for."""

    @cache
    def rows(name: str) -> list[dict[str, Any]]:
        packed = data / "conformance" / f"{name}.xz"
        with lzma.open(packed, "rt", encoding="ascii") as lines:
            return [json.loads(line) for line in lines]

    return rows


@pytest.fixture
def proven(request: pytest.FixtureRequest) -> Iterator[Counter[str]]:
    """Count what a test has compared; the totals stand below the test results."""
    yield from counting(request.node)


def checklist(stats: dict[str, list[pytest.TestReport]]) -> Iterator[str]:
    """Yield each line of the conformance checklist with its tests and outcomes."""
    found: dict[str, Counter[str]] = {}
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in stats.get(outcome, ()):
            line = CHECKLIST.search(getattr(report, "nodeid", ""))
            if line is not None:
                found.setdefault(line[1], Counter())[outcome] += 1
    for name, outcomes in sorted(found.items()):
        counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
        yield f"checklist: {name}: {counts}"


def pytest_configure(config: pytest.Config) -> None:
    """Gather what the tests have compared."""
    config.pluginmanager.register(Evidence())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the lines of the checklist."""
    for line in checklist(terminalreporter.stats):
        terminalreporter.write_line(line)
