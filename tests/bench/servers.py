"""Server processes to measure: ours, and the echo that is its floor."""

from __future__ import annotations

import os
import subprocess
import sys

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs


TOKEN = "bench-token"
_HERE = Path(__file__).parent
_CORES = os.sched_getaffinity(0)


@attrs.frozen
class Served:
    """A running server."""

    port: int
    pid: int

    def worked(self) -> float:
        """Return the seconds that its main thread has had a processor for."""
        text = Path(f"/proc/{self.pid}/schedstat").read_text(encoding="ascii")
        return int(text.split()[0]) / 1e9


@contextmanager
def apart() -> Iterator[None]:
    """Keep this process on the last core; servers that start meanwhile get the first.

    On a machine with one core nothing changes.
    """
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@contextmanager
def served(kind: str, folder: Path, *options: str) -> Iterator[Served]:
    """Run a server until the context ends.

    Args:
        kind: ``ours``, the same on a ``plain`` engine, or the ``echo``.
        folder: Where the token's file can be.
        options: Of the command line.
    """
    token = folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    ours = ["-m", "ipistate", "serve", "--port", "0", "--checkpoint-token-file", token]
    program = ours if kind == "ours" else [_HERE / f"{kind}.py"]
    command = [sys.executable, *program, *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    os.sched_setaffinity(process.pid, {min(_CORES)})
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert "serving on" in line, line + process.stderr.read()
        yield Served(int(line.rsplit(":", 1)[1]), process.pid)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
