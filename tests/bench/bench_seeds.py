"""Seeding a session from the bytes of a request, the collector as the server has it."""

from __future__ import annotations

import copy
import json

from collections.abc import Iterator

from measure import compare, fresh
from report import Row, row
from worlds import clinic, task_row

from ipistate.server.live.known_worlds import KnownWorlds
from ipistate.server.live.seeds import read_seed
from ipistate.server.operating.collector import spare_the_old


_FLOOR = "json.loads + copy.deepcopy"
_POOL_BYTES = 64 * 2**20


def rows() -> Iterator[Row]:
    """Measure a row that was never seen, seen before, and seen in another rollout."""
    spare_the_old()
    world = clinic(50_000)
    body = task_row(world)

    def load(body: bytes) -> object:
        return copy.deepcopy(json.loads(body)["environment"])

    floor = fresh(lambda: body, load, 20)
    new = fresh(
        lambda: KnownWorlds(_POOL_BYTES), lambda known: read_seed(body, known), 20
    )
    yield row("seed 50 kB, new row", _FLOOR, compare(new, floor), 0.2)
    known = KnownWorlds(_POOL_BYTES)

    def seed(body: bytes) -> object:
        return read_seed(body, known)

    copies = iter(lambda: bytes(bytearray(body)), None)
    again = fresh(lambda: next(copies), seed, 100)
    yield row("seed 50 kB, same bytes again", _FLOOR, compare(again, floor), 0.03)
    others = (task_row(world, rollout) for rollout in range(1, 10_000))
    rollout = fresh(lambda: next(others), seed, 20)
    note = "the bytes differ, the world does not"
    found = compare(rollout, floor)
    yield row("seed 50 kB, same world, other rollout", _FLOOR, found, 0.2, note)
