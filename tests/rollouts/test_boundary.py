"""At the barrier every episode stands still, and its state agrees with the server's."""

from __future__ import annotations

import asyncio
import random

from collections.abc import Mapping

import pytest

from ipistate.agents.conversation import AgentState
from ipistate.kernel import JsonObject
from ipistate.protocol.episode import EpisodeId
from ipistate.rollouts.checkpoints import Boundary


def held(count: int) -> AgentState:
    """Return a state that holds a count."""
    return AgentState(cookies=JsonObject({"count": str(count)}))


async def episode(
    boundary: Boundary,
    name: str,
    server: dict[EpisodeId, AgentState],
    rng: random.Random,
    steps: int = 20,
) -> None:
    """Count together with a server, in steps that may be cut in the middle."""
    number = EpisodeId(name)
    for count in range(1, steps + 1):
        await boundary.opened()
        with boundary.moving():
            server[number] = held(count)
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
            boundary.keep(number, held(count))
        for _ in range(rng.randrange(3)):
            await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(10))
def test_states_agree_with_the_server(seed: int) -> None:
    """Whenever the barrier is reached, server and states have counted the same."""
    rng, cuts = random.Random(seed), []

    async def watched(boundary: Boundary, server: dict[EpisodeId, AgentState]) -> None:
        for _ in range(30):
            async with boundary.standing() as states:
                cuts.append((dict(states), dict(server)))
                await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def work() -> None:
        boundary: Boundary = Boundary()
        server: dict[EpisodeId, AgentState] = {}
        names = [f"e-{number}" for number in range(5)]
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(episode(boundary, name, server, rng))
            group.create_task(watched(boundary, server))

    asyncio.run(work())

    assert [] == [cut for cut in cuts if cut[0] != cut[1]]
    assert len({str(states) for states, _ in cuts}) > 3


def test_it_opens_again_after_a_failure() -> None:
    """A checkpoint that fails leaves nobody standing."""

    async def work() -> Mapping[EpisodeId, AgentState]:
        boundary: Boundary = Boundary()
        with pytest.raises(ZeroDivisionError):
            async with boundary.standing():
                raise ZeroDivisionError
        await asyncio.wait_for(boundary.opened(), 1)
        async with boundary.standing() as states:
            return states

    assert {} == asyncio.run(work())


def test_an_episode_that_ended_is_dropped() -> None:
    """What has no session any more is in no checkpoint."""

    async def work() -> Mapping[EpisodeId, AgentState]:
        boundary: Boundary = Boundary()
        boundary.keep(EpisodeId("a"), held(1))
        boundary.keep(EpisodeId("b"), held(2))
        boundary.drop(EpisodeId("a"))
        boundary.drop(EpisodeId("c"))
        async with boundary.standing() as states:
            return states

    assert {EpisodeId("b"): held(2)} == asyncio.run(work())
