"""The task generator: rows a second, and memory that does not grow with their number."""

from __future__ import annotations

import json
import sys

from collections.abc import Iterator
from pathlib import Path

from measure import compare, repeated
from memory import grown
from report import Row, row

from ipistate.generate import DOMAINS, generate


_ROWS = 270
_FEW, _MANY = 1_000, 5_000


def _written(count: int) -> Iterator[bytes]:
    for one in generate(tuple(DOMAINS), count, 7):
        yield one.task.to_json()
        yield one.trajectories.to_json()


def _drained(count: int) -> None:
    for _ in _written(count):
        pass


def rows() -> Iterator[Row]:
    """Compare with the standard library, which only reads and writes the same rows."""
    lines = [*_written(_ROWS)]
    found = compare(
        repeated(lambda: _drained(_ROWS), 1),
        repeated(lambda: [json.dumps(json.loads(line)) for line in lines], 1),
        rounds=7,
    )
    rate = f"{_ROWS / found.ours:.0f} rows/s"
    floor = "reading and writing them with json"
    yield row(f"generate {_ROWS} task rows", floor, found, 10, rate)
    few, many = (grown(__file__, str(count)) for count in (_FEW, _MANY))
    yield Row(
        work=f"peak memory of generating {_MANY} rows",
        figure=f"{many / 1e6:.1f} MB",
        floor=f"{_FEW} rows: {few / 1e6:.1f} MB",
        ratio=many / few,
        budget=1.05,
    )


def main() -> None:
    """Print the peak of the resident memory in bytes; for the child process."""
    _drained(int(sys.argv[1]))
    # Not of getrusage, whose maximum a child process inherits.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    kilobytes = status.split("VmHWM:")[1].split()[0]
    sys.stdout.write(f"{int(kilobytes) * 1024}\n")


if __name__ == "__main__":
    main()
