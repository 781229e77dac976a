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
from ipistate.deploy.gym_mapping import from_gym, is_gym_mapping
from ipistate.deploy.launcher import DeploymentProcesses
from ipistate.deploy.llama_engine import LlamaEngine
from ipistate.deploy.model_server import create_model_app
from ipistate.deploy.model_shell import ModelSettings
from ipistate.deploy.plan import (
    PLANS,
    AgentPlan,
    DeploymentPlan,
    EnvironmentPlan,
    LlamaPlan,
    ModelPlan,
    RelayPlan,
    ResourcesPlan,
    ScriptedPlan,
    WorkerPlan,
    plan_of,
)
from ipistate.deploy.process import ServerOrder, serve_order
from ipistate.deploy.relay import create_relay_app
from ipistate.deploy.scripted_model import CALLS_PATH, ScriptedModel, builtin_scripts
from ipistate.deploy.server_process import (
    ServerFailedError,
    ServerProcess,
    end_with_input,
    serve,
)
from ipistate.deploy.worker_engine import (
    Drawing,
    Engine,
    EngineEnd,
    EngineFailedError,
    EngineStep,
    EngineToken,
)
from ipistate.deploy.worker_server import WorkerSettings, create_worker_app


__all__ = [
    "CALLS_PATH",
    "PLANS",
    "AgentPlan",
    "AgentSettings",
    "DeploymentPlan",
    "DeploymentProcesses",
    "Drawing",
    "Engine",
    "EngineEnd",
    "EngineFailedError",
    "EngineStep",
    "EngineToken",
    "EnvironmentPlan",
    "EnvironmentSettings",
    "LlamaEngine",
    "LlamaPlan",
    "ModelPlan",
    "ModelSettings",
    "RelayPlan",
    "ResourcesPlan",
    "ScriptedModel",
    "ScriptedPlan",
    "ServerFailedError",
    "ServerOrder",
    "ServerProcess",
    "WorkerPlan",
    "WorkerSettings",
    "builtin_scripts",
    "create_agent_app",
    "create_environment_app",
    "create_model_app",
    "create_relay_app",
    "create_worker_app",
    "end_with_input",
    "from_gym",
    "is_gym_mapping",
    "plan_of",
    "serve",
    "serve_order",
]
