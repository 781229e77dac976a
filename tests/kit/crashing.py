"""Dies by SIGKILL at a named step; run as a process of its own by the crash tests.

Reads lines of JSON: ``{"base": ..., "work": "write" or "read", "step": ..., "moment":
...}``. For each it forks a process that does the work and kills itself there, and
answers with that process's exit status (-9) on a line.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from pathlib import Path

from durability import CODEC, Step, Watch, directory_at, write


def work(base: str, work: str, step: str, moment: str) -> None:
    """Write or read a checkpoint, up to a moment of a step."""

    def notice(now: str, one: Step) -> None:
        if (now, one.name) == (moment, step):
            os.kill(os.getpid(), signal.SIGKILL)

    directory = directory_at(Path(base))
    with Watch(base, notice).watching():
        if work == "write":
            write(directory)
        else:
            directory.read(CODEC)


def main() -> None:
    """Fork for each line, and say how it ended."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            work(**json.loads(line))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
