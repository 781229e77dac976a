"""The kernel served over HTTP: a thin Starlette adapter (docs/reference/control-plane.md, 1 and 2).

Needs the ``server`` extra. ``create_app`` gives the application, ``run`` serves it.

Where a rule lives:

* ``adapter`` speaks the protocol: routes, cookie, prefix, gate, token. ``hot_path`` is
  the way of nearly all requests; the layers that ``app`` puts together serve the rest,
  and the same calls with the same bytes.
* ``live`` has the sessions, as values, and the shell, which does what the control
  machine decides.
* ``operating`` is about the process: settings, logs, metrics, the garbage collector.
* ``extension`` has routes of our own, for token holders.
* ``bodies`` and ``replies`` are the forms of what goes in and out.
"""

from ipistate.server.adapter.cookies import SessionCookie
from ipistate.server.app import create_app
from ipistate.server.bodies import json_object
from ipistate.server.hosts import is_loopback
from ipistate.server.live.clock import LeaseClock
from ipistate.server.live.files import CheckpointFiles
from ipistate.server.live.participant_shell import ParticipantShell, PartShell
from ipistate.server.live.waiting import Pending
from ipistate.server.operating.logs import LogForm, LogLevel, configure, ready_line
from ipistate.server.operating.observer import Observer
from ipistate.server.operating.settings import (
    PositiveSeconds,
    ServerSettings,
    SettingDescription,
    WholeNumber,
    described_settings,
)
from ipistate.server.participant_app import participant_app
from ipistate.server.plain_app import MAX_BODY_BYTES, plain_app
from ipistate.server.replies import json_reply, refused
from ipistate.server.serve import HOST, PORT, TooManyWorkersError, run


__all__ = [
    "HOST",
    "MAX_BODY_BYTES",
    "PORT",
    "CheckpointFiles",
    "LeaseClock",
    "LogForm",
    "LogLevel",
    "Observer",
    "PartShell",
    "ParticipantShell",
    "Pending",
    "PositiveSeconds",
    "ServerSettings",
    "SessionCookie",
    "SettingDescription",
    "TooManyWorkersError",
    "WholeNumber",
    "configure",
    "create_app",
    "described_settings",
    "is_loopback",
    "json_object",
    "json_reply",
    "participant_app",
    "plain_app",
    "ready_line",
    "refused",
    "run",
]
