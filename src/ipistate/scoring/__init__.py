"""What an episode is worth: task rows, traces, verdicts, effects, metrics.

Everything here judges values; nothing plays or stores an episode.
"""

from ipistate.scoring.audit import Judged, RowAudit, audit
from ipistate.scoring.budget import Meter, TooMuchWorkError
from ipistate.scoring.divergence import Divergence
from ipistate.scoring.effects.report import (
    Effects,
    WorldChange,
    assess,
    assess_trace,
)
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
    UNKNOWN,
    TaskIndex,
    mask_of,
    read_rollout,
    with_injection,
    with_world,
)
from ipistate.scoring.stored_traces import (
    calls_of,
    incomplete_reason,
    items_of,
    trace_of,
)
from ipistate.scoring.task import Task, check_rows
from ipistate.scoring.trace_reading import calls_of_items, read_trace
from ipistate.scoring.traces import (
    Trace,
    TracedCall,
    function_calls,
    read_arguments,
)
from ipistate.scoring.trajectories import Trajectories, by_row
from ipistate.scoring.verifier import Verdict, verify
from ipistate.scoring.verify_reply import verify_reply
from ipistate.scoring.verify_request import SeededRequest, VerifyRequest


__all__ = [
    "UNKNOWN",
    "AssessedRollout",
    "Divergence",
    "Effects",
    "EffectsSummary",
    "Executed",
    "Injection",
    "Judged",
    "Meter",
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
    "TooMuchWorkError",
    "Trace",
    "TracedCall",
    "Trajectories",
    "Verdict",
    "VerifyRequest",
    "WorldChange",
    "aggregate",
    "assess",
    "assess_trace",
    "audit",
    "by_row",
    "calls_of",
    "calls_of_items",
    "check_rows",
    "difference",
    "function_calls",
    "incomplete_reason",
    "items_of",
    "mask_of",
    "metrics_report",
    "read_arguments",
    "read_rollout",
    "read_trace",
    "replay_rollout",
    "rescore",
    "rescore_with_effects",
    "resistance",
    "retrace",
    "summaries",
    "trace_of",
    "verify",
    "verify_reply",
    "with_injection",
    "with_world",
]
