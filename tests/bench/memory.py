"""Memory by the growth of a process that does nothing else."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

from collections.abc import Callable
from pathlib import Path


def grown(script: str, *arguments: str) -> int:
    """Run a script that prints a number of bytes, and return it."""
    command = [sys.executable, script, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout)


def print_growth(work: Callable[[], object]) -> None:
    """Print by how much the resident memory grows while the work's result is held."""
    before = _resident()
    result = work()
    after = _resident()
    assert result is not None
    sys.stdout.write(f"{after - before}\n")


def _resident() -> int:
    gc.collect()
    numbers = Path("/proc/self/statm").read_text(encoding="ascii")
    return int(numbers.split()[1]) * os.sysconf("SC_PAGE_SIZE")
