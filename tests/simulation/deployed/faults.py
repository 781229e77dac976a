"""One-line faults of the deployment, each of which some rule must find."""

from __future__ import annotations

from simulator.faults import Fault

from ipistate.deploy.model_shell import ModelShell
from ipistate.protocol.parts.live_calls import LiveCalls
from ipistate.protocol.parts.model import ModelPart
from ipistate.protocol.steps import transitions
from ipistate.protocol.steps.agent_run import AgentRun
from ipistate.protocol.steps.single_turn import SingleTurn


DEPLOYMENT_FAULTS = {
    "a park is not honoured": (
        "native",
        Fault(
            transitions,
            "_of_task",
            "goes_on = is_open or entry.is_restart",
            "goes_on = True",
        ),
    ),
    "a held reply is delivered": (
        "relay",
        Fault(LiveCalls, "respond", "if not self.is_open:", "if False:"),
    ),
    "rows of undelivered calls are exported": (
        "relay",
        Fault(
            ModelPart, "exported", "if r.model_call_id not in undelivered", "if True"
        ),
    ),
    "a fence is lost at the import": (
        "relay",
        Fault(ModelShell, "_import", "if action.retired:", "if False:"),
    ),
    "a wait step of an environment is replayed": (
        "native",
        Fault(
            SingleTurn,
            "mode",
            "StepMode(state.handles.resources_verify)",
            "StepMode.REPLAY",
        ),
    ),
    "a wait step of an agent is replayed": (
        "relay",
        Fault(AgentRun, "mode", "StepMode(state.verify_mode)", "StepMode.REPLAY"),
    ),
}
"""By name, the topology that shows it, and the fault."""
