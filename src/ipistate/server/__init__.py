"""The kernel served over HTTP: a thin Starlette adapter (docs/reference/control-plane.md, 1 and 2).

Needs the ``server`` extra. ``create_app`` gives the application, ``run`` serves it.

A request passes the layers of ``app``. At the gate it becomes a *passage*, which the
control machine lets in, holds back or refuses; ``shell`` performs what the machine
decides. Sessions live in ``sessions``, as values that a *keeping* makes: worlds, or
with the ``extension`` worlds and their history. Worlds of repeated seeds come from the
*pool*. ``uses`` knows which sessions nobody uses.
"""

from ipistate.server.app import create_app
from ipistate.server.logs import LogForm, LogLevel, configure
from ipistate.server.serve import HOST, PORT, TooManyWorkersError, run
from ipistate.server.settings import (
    PositiveSeconds,
    ServerSettings,
    SettingDescription,
    WholeNumber,
    described_settings,
)


__all__ = [
    "HOST",
    "PORT",
    "LogForm",
    "LogLevel",
    "PositiveSeconds",
    "ServerSettings",
    "SettingDescription",
    "TooManyWorkersError",
    "WholeNumber",
    "configure",
    "create_app",
    "described_settings",
    "run",
]
