"""Memory of many sessions, each way in a process of its own."""

from __future__ import annotations

import copy
import json
import sys

from collections.abc import Callable, Iterator
from typing import Any

from memory import grown, print_growth
from report import Row
from worlds import clinic, task_row

from ipistate import JsonObject, call_tool
from ipistate.server import ServerSettings
from ipistate.server.live.known_worlds import KnownWorlds
from ipistate.server.live.seeds import read_seed


_ROWS, _ROLLOUTS, _SIZE = 125, 16, 50_000
_NOTE = JsonObject({"patient_id": "P0000", "notes": "Feels better."})


def rows() -> Iterator[Row]:
    """Compare the growth of the resident memory: ours, and a deep copy for each."""
    for kind, calls in (("seeded", 0), ("and 5 changes in each", 5)):
        ours, floor = (grown(__file__, way, str(calls)) for way in ("ours", "copies"))
        yield Row(
            work=f"memory of {_ROWS} x {_ROLLOUTS} sessions of 50 kB, {kind}",
            figure=f"{ours / 1e6:.0f} MB",
            floor=f"deep copies: {floor / 1e6:.0f} MB",
            ratio=ours / floor,
            budget=0.1,
        )


def _ours(worlds: list[dict[str, Any]], calls: int) -> list[object]:
    # The bodies of a task's rollouts differ, so that the pool must find equal worlds.
    known = KnownWorlds(ServerSettings().seed_pool_bytes)
    sessions: list[object] = [known]
    for number, world in enumerate(worlds):
        for rollout in range(_ROLLOUTS):
            body = task_row(world, number * _ROLLOUTS + rollout)
            session = read_seed(body, known).world
            for _ in range(calls):
                session = call_tool(session, "update_patient_chart", _NOTE).environment
            sessions.append(session)
    return sessions


def _copies(worlds: list[dict[str, Any]], calls: int) -> list[object]:
    sessions: list[object] = []
    for world in worlds:
        for _ in range(_ROLLOUTS):
            session = copy.deepcopy(json.loads(task_row(world))["environment"])
            for _ in range(calls):
                session["patients"]["P0000"]["chart_notes"] += "\nFeels better."
            sessions.append(session)
    return sessions


def main() -> None:
    """Print how many bytes the process grew by; for the child process."""
    way, calls = sys.argv[1], int(sys.argv[2])
    ways: dict[str, Callable[..., list[object]]] = {"ours": _ours, "copies": _copies}
    worlds = [clinic(_SIZE, seed) for seed in range(_ROWS)]
    ways[way](worlds[:1], calls)
    print_growth(lambda: ways[way](worlds, calls))


if __name__ == "__main__":
    main()
