"""Run many schedules of the simulator: ``python tests/simulation/simulate.py --events 100000``.

With ``--deployment`` it is the whole deployment: its real servers, in virtual time.

Exit status 0 if no invariant was violated, 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING


sys.path.append(str(Path(__file__).parents[1] / "kit"))

from deployed.schedules import TOPOLOGIES, quiet, world_of
from simulator.simulation import Simulation


if TYPE_CHECKING:
    from deployed.world import World


def main(arguments: list[str] | None = None) -> int:
    """Run schedules from a first seed on, until enough has happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schedule", type=int, default=4_000, help="events in one")
    parser.add_argument("--deployment", action="store_true", help="all servers at once")
    options = parser.parse_args(arguments)
    make = _deployment if options.deployment else Simulation
    tally: Counter[str] = Counter()
    violations: list[int] = []
    seed, began = options.seed, time.perf_counter()
    while tally["events"] < options.events:
        simulation = make(seed, options.schedule)
        try:
            with quiet():
                tally += simulation.run()
        except Exception:  # noqa: BLE001 - whatever goes wrong is a finding
            violations.append(seed)
            tally += simulation.tally
            sys.stderr.write(f"seed {seed}, event {simulation.events}:\n")
            traceback.print_exc(limit=-4)
        tally["events"] += simulation.events
        tally["schedules"] += 1
        seed += 1
    _print(tally, violations, time.perf_counter() - began)
    return 1 if violations else 0


def _deployment(seed: int, events: int) -> World:
    return world_of(seed, TOPOLOGIES[seed % 2], events)


def _print(tally: Counter[str], violations: list[int], seconds: float) -> None:
    first = ["events", "schedules", "crashes", "restores"]
    rest = sorted(set(tally) - set(first))
    for name in [*first, *rest]:
        sys.stdout.write(f"{tally[name]:12,} {name}\n")
    sys.stdout.write(f"{seconds:12,.1f} seconds\n")
    sys.stdout.write(f"{len(violations):12,} violations {violations or ''}\n")


if __name__ == "__main__":
    sys.exit(main())
