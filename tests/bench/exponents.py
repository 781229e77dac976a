"""How work grows with size, for every tool and everything else: one table.

Usage: ``python tests/bench/exponents.py [PART OF A NAME]``.
"""

from __future__ import annotations

import sys

from pathlib import Path


sys.path.insert(0, str(Path(__file__).parents[1] / "kit"))

from growing import works
from growth import exponents, seconds


def main() -> None:
    """Print the exponents, and how long the largest work takes."""
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    sys.stdout.write(
        "| Work | Two decades | The last one | Largest |\n| --- | ---: | ---: | ---: |\n"
    )
    for name, (prepare, smallest) in works().items():
        if part in name:
            found = exponents(prepare, smallest)
            longest = seconds(prepare, 100 * smallest, 1)
            sys.stdout.write(
                f"| {name} | {found.whole:.2f} | {found.last:.2f} | {longest * 1e3:.1f} ms |\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
