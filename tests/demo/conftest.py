"""Rollouts and recordings without a server."""

from __future__ import annotations

import asyncio

from collections.abc import Callable
from typing import Any

import pytest

from local_server import recorded as record

from ipistate import Environment
from ipistate.demo.plan import DemoRollout, plan
from ipistate.demo.play import Recording
from ipistate.demo.scripts import builtin_scripts
from ipistate.tools.transition import world_after


@pytest.fixture(scope="session")
def rollouts() -> tuple[DemoRollout, ...]:
    """Return the demo's own plan of eighty rollouts."""
    return plan(builtin_scripts(), 80)


@pytest.fixture
def recorded() -> Callable[..., Recording]:
    """Return a function that records a rollout as a faultless server answers it."""
    return record


@pytest.fixture
def world_at_cut() -> Callable[..., Environment]:
    """Return a function that gives the world of a rollout at its cut."""
    return lambda one: world_after(one.task.environment, one.calls[: one.cut])


@pytest.fixture
def run_async() -> Callable[..., Any]:
    """Return a function that runs a coroutine to its end."""
    return asyncio.run
