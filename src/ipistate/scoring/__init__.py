"""What an episode is worth: task rows, traces, verdicts, effects, metrics.

Everything here judges values; nothing plays or stores an episode.
"""

from ipistate.scoring.audit import Judged, RowAudit, audit
from ipistate.scoring.divergence import Divergence
from ipistate.scoring.effects.report import Effects, WorldChange, assess
from ipistate.scoring.injection import Injection
from ipistate.scoring.metrics import aggregate, metrics_report
from ipistate.scoring.renaming import Renaming
from ipistate.scoring.resistance import Resistance, resistance, wilson
from ipistate.scoring.retrace import Executed, Refusal, Retrace, retrace
from ipistate.scoring.task import Task, check_rows
from ipistate.scoring.traces import (
    TRUNCATED,
    TracedCall,
    calls_of,
    calls_of_items,
    function_calls,
    items_of,
    read_arguments,
)
from ipistate.scoring.trajectories import Trajectories, by_row
from ipistate.scoring.verifier import Verdict, verify
from ipistate.scoring.verify_request import SeededRequest, VerifyRequest, verify_reply


__all__ = [
    "TRUNCATED",
    "Divergence",
    "Effects",
    "Executed",
    "Injection",
    "Judged",
    "Refusal",
    "Renaming",
    "Resistance",
    "Retrace",
    "RowAudit",
    "SeededRequest",
    "Task",
    "TracedCall",
    "Trajectories",
    "Verdict",
    "VerifyRequest",
    "WorldChange",
    "aggregate",
    "assess",
    "audit",
    "by_row",
    "calls_of",
    "calls_of_items",
    "check_rows",
    "function_calls",
    "items_of",
    "metrics_report",
    "read_arguments",
    "resistance",
    "retrace",
    "verify",
    "verify_reply",
    "wilson",
]
