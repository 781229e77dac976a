"""Worlds one after another, and what rows come to where nothing goes wrong."""

from __future__ import annotations

import logging

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from deployed.endpoint import ROWS
from deployed.oracle import Outcome
from deployed.world import World


SCHEDULE = 4_000
"""Events of one world, before it comes to its end."""
TOPOLOGIES = ("native", "relay")


@cache
def expected(topology: str) -> tuple[Outcome | None, ...]:
    """Return what each row comes to in a calm world."""
    world = World(0, topology, SCHEDULE * 2, [None], is_calm=True)
    with quiet():
        world.run()
    found = {int(name[1:]): one for name, one in world.oracle.results.items()}
    return tuple(found[row] for row in range(len(ROWS)))


def world_of(seed: int, topology: str, events: int = SCHEDULE) -> World:
    """Return a world in which everything goes wrong."""
    return World(seed, topology, events, expected(topology))


@contextmanager
def quiet() -> Iterator[None]:
    """Let servers that die, and callers that wait for them, say nothing about it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def run(events: int, seed: int, topology: str) -> Counter[str]:
    """Run worlds one after the other; return how much of what there was."""
    tally: Counter[str] = Counter()
    with quiet():
        while tally["events"] < events:
            world = world_of(seed, topology)
            tally += world.run()
            tally["events"] += world.events
            tally["worlds"] += 1
            seed += 1
    return tally
