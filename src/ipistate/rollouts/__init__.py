"""Rollouts: task rows, a policy and a server become scored rows that survive a crash.

``ipistate run`` is its command. Needs the extras ``client`` and ``server``.
"""

from ipistate.rollouts.attempt import Attempt, close_request
from ipistate.rollouts.budget import Prices, RunBudget
from ipistate.rollouts.checkpoints import Boundary, deadline, freeze
from ipistate.rollouts.configuration import Configuration, Place, Rollout, RowChoice
from ipistate.rollouts.connection import (
    Channel,
    EpisodeClient,
    Server,
    ServerError,
    cookies_of,
)
from ipistate.rollouts.descriptors import OpenFiles, needed
from ipistate.rollouts.lifecycle import RunOutcome, run
from ipistate.rollouts.lines import RunFileError
from ipistate.rollouts.records import Records, RunFiles, RunTally, opened
from ipistate.rollouts.runner import Ending, RunOrder, RunWatcher
from ipistate.rollouts.tasks import TaskFile, open_tasks


__all__ = [
    "Attempt",
    "Boundary",
    "Channel",
    "Configuration",
    "Ending",
    "EpisodeClient",
    "OpenFiles",
    "Place",
    "Prices",
    "Records",
    "Rollout",
    "RowChoice",
    "RunBudget",
    "RunFileError",
    "RunFiles",
    "RunOrder",
    "RunOutcome",
    "RunTally",
    "RunWatcher",
    "Server",
    "ServerError",
    "TaskFile",
    "close_request",
    "cookies_of",
    "deadline",
    "freeze",
    "needed",
    "open_tasks",
    "opened",
    "run",
]
