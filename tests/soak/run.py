"""Keep many sessions in servers that are killed, and compare all of it with a shadow.

``python tests/soak/run.py --minutes 60 --sessions 10000 --seed 7`` does so for an hour,
``--kills 200`` until so many servers were killed. Progress is told on standard error, the
result as JSON on standard output. Exit status 0 if nothing differs and nothing has grown.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile

from pathlib import Path

import attrs


_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS / name) for name in ("soak/soaking", "bench", "kit")]

from series import SoakOrder, run  # noqa: E402 - found by the line above


def main() -> int:
    """Read the options, run, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    for field in attrs.fields(SoakOrder):
        usual, text = field.default, field.metadata["help"]
        name, kind = f"--{field.name}", type(usual)
        parser.add_argument(name, type=kind, default=usual, help=text)
    order = SoakOrder(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory() as root:
        result = asyncio.run(run(order, Path(root)))
    sys.stdout.write(f"{json.dumps(result, indent=1)}\n")
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
