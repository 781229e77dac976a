"""Rollouts: task rows, a policy and a server become scored rows that survive a crash.

``ipistate run`` is its command. Needs the extras ``client`` and ``server``.
"""

from ipistate.rollouts.configuration import Configuration
from ipistate.rollouts.connection import Server
from ipistate.rollouts.lifecycle import RunOutcome, run
from ipistate.rollouts.process import ServerProcess, serve
from ipistate.rollouts.records import Records, RunFiles, opened
from ipistate.rollouts.rollout import Rollout
from ipistate.rollouts.runner import Ending, RunOrder, RunWatcher
from ipistate.rollouts.tally import RunTally
from ipistate.rollouts.tasks import TaskFile, open_tasks


__all__ = [
    "Configuration",
    "Ending",
    "Records",
    "Rollout",
    "RunFiles",
    "RunOrder",
    "RunOutcome",
    "RunTally",
    "RunWatcher",
    "Server",
    "ServerProcess",
    "TaskFile",
    "open_tasks",
    "opened",
    "run",
    "serve",
]
