"""The servers of a deployment beside the resources server.

Each is a thin shell around a part of the control machine: it makes requests, keeps
timers and answers; what may run when is the part's to say (``protocol.parts``), and what
an episode does next is its protocol's (``protocol.steps``).
"""

from ipistate.deploy.agent_server import create_agent_app
from ipistate.deploy.agent_shell import AgentSettings
from ipistate.deploy.environment_server import (
    EnvironmentSettings,
    create_environment_app,
)
from ipistate.deploy.model_server import create_model_app
from ipistate.deploy.model_shell import ModelSettings


__all__ = [
    "AgentSettings",
    "EnvironmentSettings",
    "ModelSettings",
    "create_agent_app",
    "create_environment_app",
    "create_model_app",
]
