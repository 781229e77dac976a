"""Report the coverage of the pure rooms; exit 2 if a line or a branch is missing."""

from __future__ import annotations

import sys
import tomllib

from pathlib import Path

from coverage.cmdline import main


PROJECT = Path(__file__).parents[1] / "pyproject.toml"
ROOMS = tomllib.loads(PROJECT.read_text("utf-8"))["tool"]["ipistate"]["pure_rooms"]
PATTERNS = [f"*/ipistate/{room}{end}" for room in ROOMS for end in (".py", "/**/*.py")]

sys.exit(main(["report", "--fail-under=100", f"--include={','.join(PATTERNS)}"]))
