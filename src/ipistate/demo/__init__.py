"""The demo: sessions that survive the death of their server.

Scripted agents play task rows over HTTP; the server is killed in the middle, a fresh one
restores the checkpoint, and every reply is compared with an uninterrupted run. Needs the
``cli`` extra; ``ipistate demo`` is its command.
"""

from ipistate.demo.deployed import TOPOLOGIES, DeployedRollout, Topology
from ipistate.demo.deployment_report import (
    DeploymentOutcome,
    DeploymentReport,
    DeploymentRound,
    DeploymentRoundsReport,
)
from ipistate.demo.deployment_rounds import run_deployment_rounds
from ipistate.demo.deployment_story import deployed_rollouts, run_deployment
from ipistate.demo.kills import run_rounds
from ipistate.demo.outcome import DemoOutcome, DomainLine
from ipistate.demo.plan import DemoRollout, plan, plan_for
from ipistate.demo.play import DemoWatcher
from ipistate.demo.real_model import RealModelReport, run_real_model
from ipistate.demo.report import Crash, DemoReport, FullReport, RoundsLine, RoundsReport
from ipistate.demo.scripts import (
    DemoScript,
    builtin_scripts,
    derive,
    generated_scripts,
    prompt,
)
from ipistate.demo.story import run, run_full
from ipistate.demo.workplace import Workplace


__all__ = [
    "TOPOLOGIES",
    "Crash",
    "DemoOutcome",
    "DemoReport",
    "DemoRollout",
    "DemoScript",
    "DemoWatcher",
    "DeployedRollout",
    "DeploymentOutcome",
    "DeploymentReport",
    "DeploymentRound",
    "DeploymentRoundsReport",
    "DomainLine",
    "FullReport",
    "RealModelReport",
    "RoundsLine",
    "RoundsReport",
    "Topology",
    "Workplace",
    "builtin_scripts",
    "deployed_rollouts",
    "derive",
    "generated_scripts",
    "plan",
    "plan_for",
    "prompt",
    "run",
    "run_deployment",
    "run_deployment_rounds",
    "run_full",
    "run_real_model",
    "run_rounds",
]
