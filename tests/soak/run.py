"""Keep many sessions in servers that are killed, and compare all of it with a shadow.

``python tests/soak/run.py --minutes 60 --sessions 10000 --seed 7`` does so for an hour,
``--kills 200`` until so many servers were killed. Progress is told on standard error, the
result as JSON on standard output. Exit status 0 if nothing differs and nothing has grown.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sys
import tempfile

from pathlib import Path
from random import Random
from typing import Any

import attrs


_HERE = Path(__file__).resolve().parent
for _place in ("soak/soaking", "bench", "kit"):
    sys.path.insert(0, str(_HERE.parent / _place))

from lives import Soak  # noqa: E402
from traffic import parts  # noqa: E402

from ipistate.demo.workplace import Workplace  # noqa: E402


_MOST_SAMPLES = 40


async def soaked(options: argparse.Namespace, root: Path) -> dict[str, Any]:
    """Run a soak to its end and return the result."""
    soak = Soak(
        place=Workplace(root),
        parts=await parts(),
        sessions=options.sessions,
        rounds=options.rounds or (2 if options.kills else 4),
        calls=options.calls or 2 * options.sessions,
        random=Random(options.seed),
        kills=Random(f"{options.seed} kills"),
    )

    def is_enough() -> bool:
        if options.kills:
            return soak.tally["kills"] >= options.kills
        return soak.usage.seconds >= options.minutes * 60

    while not is_enough():
        kill = soak.draw_kill()
        await soak.live(kill, is_enough)
        _tell(soak, f"killed in {kill}")
    await soak.live(None, lambda: True)
    _tell(soak, "ended")
    return result(options, soak)


def _tell(soak: Soak, what: str) -> None:
    last = soak.usage.samples[-1] if soak.usage.samples else None
    held = f", {last.memory / 1e6:.0f} MB, {last.descriptors} fds" if last else ""
    sys.stderr.write(
        f"{soak.usage.seconds:7.1f} s, server {soak.tally['servers']} {what}: "
        f"{soak.tally['replies']:,} replies, {len(soak.shadow.sessions):,} sessions, "
        f"{soak.tally['differences']} differences{held}\n"
    )


def result(options: argparse.Namespace, soak: Soak) -> dict[str, Any]:
    """Tell what was done, what differed, and what has grown."""
    memory, descriptors = soak.usage.memory(), soak.usage.descriptors()
    samples = soak.usage.samples
    shown = samples[:: max(1, len(samples) // _MOST_SAMPLES)]
    return {
        "ok": memory["ok"] and descriptors["ok"] and not soak.tally["differences"],
        "seed": options.seed,
        "sessions": options.sessions,
        "seconds": round(soak.usage.seconds, 1),
        "python": platform.python_version(),
        "counts": dict(sorted(soak.tally.items())),
        "differences": soak.differences,
        "memory": memory,
        "descriptors": descriptors,
        "samples": [attrs.asdict(one) for one in shown],
    }


def main() -> int:
    """Read the options, run, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--kills", type=int, default=0, help="in place of minutes")
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=0, help="checkpoints of a server")
    parser.add_argument("--calls", type=int, default=0, help="between checkpoints")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        found = asyncio.run(soaked(options, Path(root)))
    sys.stdout.write(f"{json.dumps(found, indent=1)}\n")
    return 0 if found["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
