"""What an episode is worth: task rows, traces, verdicts, effects, metrics.

Everything here judges values; nothing plays or stores an episode.
"""

from ipistate.scoring.audit import Judged, RowAudit, audit
from ipistate.scoring.divergence import Divergence
from ipistate.scoring.effects.report import Effects, WorldChange, assess
from ipistate.scoring.effects_summary import (
    AssessedRollout,
    EffectsSummary,
    summaries,
)
from ipistate.scoring.injection import Injection
from ipistate.scoring.intervals import Rate, difference
from ipistate.scoring.metrics import aggregate, metrics_report
from ipistate.scoring.renaming import Renaming
from ipistate.scoring.replayed import Replayed, ReplayTotals, replay_rollout
from ipistate.scoring.rescored import Rescored, rescore, rescore_with_effects
from ipistate.scoring.resistance import Resistance, resistance
from ipistate.scoring.retrace import Executed, Refusal, Retrace, retrace
from ipistate.scoring.stored_rollouts import (
    TaskIndex,
    read_rollout,
    with_injection,
    with_world,
)
from ipistate.scoring.task import Task, check_rows
from ipistate.scoring.traces import (
    TRUNCATED,
    TracedCall,
    calls_of,
    calls_of_items,
    function_calls,
    incomplete_reason,
    items_of,
    read_arguments,
)
from ipistate.scoring.trajectories import Trajectories, by_row
from ipistate.scoring.verifier import Verdict, verify
from ipistate.scoring.verify_reply import verify_reply
from ipistate.scoring.verify_request import SeededRequest, VerifyRequest


__all__ = [
    "TRUNCATED",
    "AssessedRollout",
    "Divergence",
    "Effects",
    "EffectsSummary",
    "Executed",
    "Injection",
    "Judged",
    "Rate",
    "Refusal",
    "Renaming",
    "ReplayTotals",
    "Replayed",
    "Rescored",
    "Resistance",
    "Retrace",
    "RowAudit",
    "SeededRequest",
    "Task",
    "TaskIndex",
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
    "difference",
    "function_calls",
    "incomplete_reason",
    "items_of",
    "metrics_report",
    "read_arguments",
    "read_rollout",
    "replay_rollout",
    "rescore",
    "rescore_with_effects",
    "resistance",
    "retrace",
    "summaries",
    "verify",
    "verify_reply",
    "with_injection",
    "with_world",
]
