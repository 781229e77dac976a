"""Server processes to measure: ours, and the echo that is its floor."""

from __future__ import annotations

import subprocess
import sys

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs


TOKEN = "bench-token"
_HERE = Path(__file__).parent


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
def served(kind: str, folder: Path, *options: str) -> Iterator[Served]:
    """Run a server, ``ours`` or ``echo``, until the context ends."""
    token = folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    ours = ["-m", "ipistate", "serve", "--port", "0", "--checkpoint-token-file", token]
    ours += options
    command = [sys.executable, *(ours if kind == "ours" else [_HERE / "echo.py"])]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert "serving on" in line, line + process.stderr.read()
        yield Served(int(line.rsplit(":", 1)[1]), process.pid)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
