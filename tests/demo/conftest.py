"""Rollouts and recordings without a server."""

from __future__ import annotations

import asyncio

import pytest

from ipistate.demo.plan import plan
from ipistate.demo.play import Recording
from ipistate.demo.scripts import builtin_scripts
from ipistate.demo.trace import verify_request
from ipistate.kernel.codec import encode
from ipistate.kernel.values import JsonObject
from ipistate.scoring.verify_request import VerifyRequest, verify_reply
from ipistate.tools.transition import replay


@pytest.fixture(scope="session")
def rollouts():
    """Return the demo's own plan of eighty rollouts."""
    return plan(builtin_scripts(), 80)


@pytest.fixture
def recorded():
    """Return a function that records a rollout as a faultless server answers it."""

    def record(rollout):
        calls = replay(rollout.task.environment, rollout.calls)
        replies = [encode(JsonObject({"output": done.output})) for done in calls]
        request = VerifyRequest.from_document(verify_request(rollout, replies))
        verdict = encode(verify_reply(request, request.verdict()))
        return Recording(replies=tuple(replies), verdict=verdict)

    return record


@pytest.fixture
def world_at_cut():
    """Return a function that gives the world of a rollout at its cut."""

    def world(rollout):
        environment = rollout.task.environment
        for done in replay(environment, rollout.calls[: rollout.cut]):
            environment = done.environment
        return environment

    return world


@pytest.fixture
def run_async():
    """Return a function that runs a coroutine to its end."""
    return asyncio.run
