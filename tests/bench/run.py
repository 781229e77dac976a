"""Measure everything that has a budget and print one table.

Usage: ``python tests/bench/run.py [--json] [--write docs/performance.md] [GROUP ...]``.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import sys

from pathlib import Path

from report import Row, document, machine, table


START, END = "<!-- figures -->", "<!-- end of figures -->"
GROUPS = (
    *("codec", "tools", "sessions", "diff", "seeds", "generate", "memory"),
    *("checkpoint", "http", "pauses", "rollouts", "deployment", "report"),
)
OPTIONAL = ("http_plain",)
"""Measured only if asked for."""


def main() -> None:
    """Run the groups that were asked for, all by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "groups", nargs="*", metavar="GROUP", help=", ".join((*GROUPS, *OPTIONAL))
    )
    parser.add_argument("--json", action="store_true", help="print plain data")
    parser.add_argument("--write", type=Path, help="renew the table in this page")
    options = parser.parse_args()
    rows: list[Row] = []
    about = machine()
    thresholds = gc.get_threshold()
    for group in options.groups or GROUPS:
        gc.set_threshold(*thresholds)
        for row in importlib.import_module(f"bench_{group}").rows():
            sys.stderr.write(f"{row.work}: {row.ratio:.3g}\n")
            rows.append(row)
    if options.json:
        text = json.dumps(document(about, rows), indent=1, ensure_ascii=False)
    else:
        text = "\n".join([*_lines(about), "", table(rows)])
    sys.stdout.write(f"{text}\n")
    if options.write:
        _renew(options.write, about, rows)


def _lines(about: dict[str, str]) -> list[str]:
    return [f"- {name}: {value}" for name, value in about.items()]


def _renew(page: Path, about: dict[str, str], rows: list[Row]) -> None:
    head, start, rest = page.read_text(encoding="utf-8").partition(START)
    _, end, tail = rest.partition(END)
    lines = "\n".join(_lines(about))
    text = f"{head}{start}\n{lines}\n\n{table(rows)}\n{end}{tail}"
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
