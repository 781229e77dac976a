"""The command line: one module for each verb, data on stdout, the rest on stderr.

Needs the ``cli`` extra; ``main`` says so if it is missing.
"""

from __future__ import annotations

import sys

from importlib import import_module
from typing import Final, NoReturn


__all__ = ["main"]

USAGE: Final = 2
INTERRUPTED: Final = 4


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    try:
        app = import_module("ipistate.cli.app")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ipistate"):
            raise
        sys.stderr.write(
            f"ipistate: the command line needs the module {error.name!r}; "
            "install it with: pip install 'ipistate[cli]'\n"
        )
        sys.exit(USAGE)
    except KeyboardInterrupt:
        sys.stderr.write("ipistate: interrupted\n")
        sys.exit(INTERRUPTED)
    sys.exit(app.run())
