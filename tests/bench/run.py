"""Measure everything that has a budget and print one table.

Usage: ``python tests/bench/run.py [--json] [GROUP ...]``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys

from report import document, machine, table


GROUPS = ("codec", "tools", "seeds", "memory", "checkpoint", "http", "pauses")


def main() -> None:
    """Run the groups that were asked for, all by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--json", action="store_true", help="print plain data")
    options = parser.parse_args()
    rows = []
    for group in options.groups or GROUPS:
        for row in importlib.import_module(f"bench_{group}").rows():
            print(f"{row.work}: {row.ratio:.3g}", file=sys.stderr, flush=True)
            rows.append(row)
    if options.json:
        print(json.dumps(document(rows), indent=1, ensure_ascii=False))
        return
    for name, value in machine().items():
        print(f"{name}: {value}")
    print(f"\n{table(rows)}")


if __name__ == "__main__":
    main()
