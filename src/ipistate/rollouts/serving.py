"""The embedded server: a child process that ends when the process that started it does.

``python -m ipistate.rollouts.serving`` reads one line of JSON from its standard input and
serves until that input ends, which it does even if the parent is killed.
"""

from __future__ import annotations

import json
import sys

from pkgutil import resolve_name
from typing import Any

import attrs

from starlette.datastructures import Secret

from ipistate.deploy import end_with_input
from ipistate.server import LogForm, LogLevel, ServerSettings, configure, run
from ipistate.tools import TOOLS


INSTANCE = "ipi"


@attrs.frozen(kw_only=True)
class Serving:
    """What the child is told."""

    token: str = attrs.field(repr=False)
    effects: bool = False
    tools: str | None = None
    """A table of tools, as ``module:name``; None for the built-in one."""

    def to_line(self) -> bytes:
        """Write the line for the child's standard input."""
        return json.dumps(attrs.asdict(self)).encode() + b"\n"

    def settings(self) -> ServerSettings:
        """Return the settings of the server."""
        return ServerSettings(
            instance_name=INSTANCE,
            checkpoint_token=Secret(self.token),
            effects=self.effects,
            tools=TOOLS if self.tools is None else resolve_name(self.tools),
        )


def read_serving(line: bytes) -> Serving:
    """Read the line that ``to_line`` has written."""
    told: dict[str, Any] = json.loads(line)
    return Serving(**told)


def main() -> None:
    """Serve on a free port of the loopback interface until the input ends."""
    configure(LogForm.TEXT, LogLevel.WARNING)
    given = sys.stdin.buffer
    told = read_serving(given.readline())
    end_with_input()
    run(told.settings(), "127.0.0.1", 0)


if __name__ == "__main__":
    main()
