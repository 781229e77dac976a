"""Checkpoints: which requests may run when, and what each control call does to that.

How it works together::

    events ──▶ handle(participant, event, now) ──▶ (participant, actions)

A server's shell turns requests, ends of background work and time into ``events``, and
performs the ``actions``: admit a request, reply to a call, write a directory. The machine
does neither I/O nor waiting.

* The *participant* is the machine's whole state: a ``part`` and a ``control`` state.
* The *part* is what the kind of server adds (``parts``). That of a resources server is the
  data plane's gate: which requests are inside, which wait, and to which episode each
  session is bound.
* The *control* state belongs to the controller: the open checkpoint, its lease, the
  replies it has given. One module for each operation, ``fencing`` for what all share.
* The *holder* is the operation that has the lock because it waits for something outside;
  the calls after it queue.
* The *cut* is what a commit writes: the sessions' states at one moment, taken once.
* Live states stay with the shell. The machine knows session ids, and a state only as an
  opaque value on its way into or out of ``records``, which say how files are written.
* What both sides call things on the wire stands once, in ``wire``.
"""

from ipistate.protocol.actions import (
    STATUS_OF,
    Action,
    Admit,
    Export,
    Free,
    Install,
    PartAction,
    Read,
    Refuse,
    Reply,
    SetTimer,
    StopWrite,
    Sweep,
    Write,
    refusal,
)
from ipistate.protocol.admission import (
    ResourcesState,
    enter,
    leave,
    resources_participant,
)
from ipistate.protocol.control import handle
from ipistate.protocol.episode import (
    MAX_SESSION_ID,
    SAFE_NAME,
    EpisodeId,
    check_session_id,
    is_session_id,
    rule,
)
from ipistate.protocol.events import (
    ControlCalled,
    ControlDropped,
    Event,
    Exported,
    Freed,
    IdleFound,
    Installed,
    PartEvent,
    ReadEnded,
    RequestArrived,
    RequestEnded,
    SessionsMade,
    Tick,
    WriteEnded,
    WriteStopped,
)
from ipistate.protocol.operations import (
    MAX_IDS,
    OPERATIONS,
    Call,
    CommitBody,
    ControlBody,
    RestoreBody,
    check_deadline,
)
from ipistate.protocol.participant import (
    ParticipantState,
    Phase,
    Settings,
    participant_status,
)
from ipistate.protocol.parts.agent import AgentPart
from ipistate.protocol.parts.agent_events import (
    ActivationArrived,
    ActivationEnded,
    AgentRunArrived,
    CancelActivation,
    CloseArrived,
    LoopProceeds,
    LoopReached,
    ModelAsked,
    ModelReplied,
    RequestLeft,
    SeedArrived,
    SeedEnded,
    SessionClosed,
    SessionOpened,
    StartActivation,
)
from ipistate.protocol.parts.agent_sessions import run_key
from ipistate.protocol.parts.environment import (
    EnvironmentPart,
    RunArrived,
    StartEpisode,
)
from ipistate.protocol.parts.model import ModelPart
from ipistate.protocol.parts.model_events import (
    CallArrived,
    CallCaptured,
    CallEnded,
    CancelCall,
    CutCalls,
    CutsEnded,
    ImportLedger,
    ResponseReady,
    RetireLedger,
    StartResponse,
)
from ipistate.protocol.parts.model_records import ModelRecord, ModelRecords
from ipistate.protocol.parts.part import Part, PartT, Readiness, Selection
from ipistate.protocol.parts.resources import ResourcesPart
from ipistate.protocol.records import (
    KIND,
    CheckpointRecord,
    EncodedStates,
    Manifest,
    RecordCodec,
    Restorable,
    SessionRecord,
    SessionRecords,
    read_manifest,
    read_record,
)
from ipistate.protocol.steps.actions import ArmDeadline, Cancel, Expire, Proceed, Wake
from ipistate.protocol.steps.activations import ActivationLog
from ipistate.protocol.steps.agent_run import (
    RUN_BOUNDARIES,
    AgentRun,
    RunBoundary,
    RunReturn,
    RunSeed,
)
from ipistate.protocol.steps.episode_records import (
    AgentSessionRecords,
    EnvironmentRecords,
)
from ipistate.protocol.steps.episode_task import EpisodeConclusion, EpisodeTask
from ipistate.protocol.steps.events import DeadlinePassed, EpisodeEnded, WakeTaken
from ipistate.protocol.steps.exchange import (
    EffectFault,
    EffectReply,
    EffectRequest,
    FaultKind,
    ServerRole,
)
from ipistate.protocol.steps.failures import EpisodeFailure, EpisodeRefusal
from ipistate.protocol.steps.single_turn import SingleTurn, turn_reply
from ipistate.protocol.steps.tasks import RunBody
from ipistate.protocol.steps.turn_boundaries import (
    TURN_BOUNDARIES,
    SessionHandles,
    TurnReturn,
    TurnSeed,
)
from ipistate.protocol.steps.turn_requests import TurnState
from ipistate.protocol.wire import (
    ACTIVATION_HEADER,
    AGENT_CLOSE_PATH,
    AGENT_SESSIONS_PATH,
    CAPTURE_SEGMENT,
    CHECKPOINT_PATH,
    CLOSE_PATH,
    CONTROL_PREFIX,
    COOKIE_MAX_AGE,
    DEFAULT_INSTANCE,
    EXTENSION_PATH,
    HINT_HEADER,
    KEY_HEADER,
    LIVENESS_PATHS,
    METRICS_PATH,
    RESERVED_NAMES,
    RESPONSES_PATH,
    REVERIFY_PATH,
    ROLLOUT_PREFIX,
    RUN_PATH,
    SEED_PATH,
    SESSION_MEMBER,
    TIME_HEADER,
    VERIFY_MODE_HEADER,
    VERIFY_PATH,
    cookie_name,
    prefixed,
)


__all__ = [
    "ACTIVATION_HEADER",
    "AGENT_CLOSE_PATH",
    "AGENT_SESSIONS_PATH",
    "CAPTURE_SEGMENT",
    "CHECKPOINT_PATH",
    "CLOSE_PATH",
    "CONTROL_PREFIX",
    "COOKIE_MAX_AGE",
    "DEFAULT_INSTANCE",
    "EXTENSION_PATH",
    "HINT_HEADER",
    "KEY_HEADER",
    "KIND",
    "LIVENESS_PATHS",
    "MAX_IDS",
    "MAX_SESSION_ID",
    "METRICS_PATH",
    "OPERATIONS",
    "RESERVED_NAMES",
    "RESPONSES_PATH",
    "REVERIFY_PATH",
    "ROLLOUT_PREFIX",
    "RUN_BOUNDARIES",
    "RUN_PATH",
    "SAFE_NAME",
    "SEED_PATH",
    "SESSION_MEMBER",
    "STATUS_OF",
    "TIME_HEADER",
    "TURN_BOUNDARIES",
    "VERIFY_MODE_HEADER",
    "VERIFY_PATH",
    "Action",
    "ActivationArrived",
    "ActivationEnded",
    "ActivationLog",
    "Admit",
    "AgentPart",
    "AgentRun",
    "AgentRunArrived",
    "AgentSessionRecords",
    "ArmDeadline",
    "Call",
    "CallArrived",
    "CallCaptured",
    "CallEnded",
    "Cancel",
    "CancelActivation",
    "CancelCall",
    "CheckpointRecord",
    "CloseArrived",
    "CommitBody",
    "ControlBody",
    "ControlCalled",
    "ControlDropped",
    "CutCalls",
    "CutsEnded",
    "DeadlinePassed",
    "EffectFault",
    "EffectReply",
    "EffectRequest",
    "EncodedStates",
    "EnvironmentPart",
    "EnvironmentRecords",
    "EpisodeConclusion",
    "EpisodeEnded",
    "EpisodeFailure",
    "EpisodeId",
    "EpisodeRefusal",
    "EpisodeTask",
    "Event",
    "Expire",
    "Export",
    "Exported",
    "FaultKind",
    "Free",
    "Freed",
    "IdleFound",
    "ImportLedger",
    "Install",
    "Installed",
    "LoopProceeds",
    "LoopReached",
    "Manifest",
    "ModelAsked",
    "ModelPart",
    "ModelRecord",
    "ModelRecords",
    "ModelReplied",
    "Part",
    "PartAction",
    "PartEvent",
    "PartT",
    "ParticipantState",
    "Phase",
    "Proceed",
    "Read",
    "ReadEnded",
    "Readiness",
    "RecordCodec",
    "Refuse",
    "Reply",
    "RequestArrived",
    "RequestEnded",
    "RequestLeft",
    "ResourcesPart",
    "ResourcesState",
    "ResponseReady",
    "Restorable",
    "RestoreBody",
    "RetireLedger",
    "RunArrived",
    "RunBody",
    "RunBoundary",
    "RunReturn",
    "RunSeed",
    "SeedArrived",
    "SeedEnded",
    "Selection",
    "ServerRole",
    "SessionClosed",
    "SessionHandles",
    "SessionOpened",
    "SessionRecord",
    "SessionRecords",
    "SessionsMade",
    "SetTimer",
    "Settings",
    "SingleTurn",
    "StartActivation",
    "StartEpisode",
    "StartResponse",
    "StopWrite",
    "Sweep",
    "Tick",
    "TurnReturn",
    "TurnSeed",
    "TurnState",
    "Wake",
    "WakeTaken",
    "Write",
    "WriteEnded",
    "WriteStopped",
    "check_deadline",
    "check_session_id",
    "cookie_name",
    "enter",
    "handle",
    "is_session_id",
    "leave",
    "participant_status",
    "prefixed",
    "read_manifest",
    "read_record",
    "refusal",
    "resources_participant",
    "rule",
    "run_key",
    "turn_reply",
]
