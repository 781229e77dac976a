"""Immutable session state for indirect-prompt-injection environments."""

from ipistate.sessions.codec import session_from_json, session_to_json
from ipistate.sessions.state import IPICheckpointState
from ipistate.kernel.codec import decode, encode, render
from ipistate.kernel.diff import Diff, diff
from ipistate.scoring.effects import Effects, assess
from ipistate.kernel.environment import Environment
from ipistate.errors import (
    CheckpointError,
    DecodeError,
    EncodeError,
    ImmutableError,
    IpiStateError,
    SchemaError,
)
from ipistate.scoring.injection import Injection
from ipistate.scoring.metrics import aggregate
from ipistate.kernel.change import Change
from ipistate.scoring.resistance import Resistance, resistance
from ipistate.sessions.session import IdempotencyError, Session, SessionRangeError, Step
from ipistate.scoring.task import Task
from ipistate.tools import TOOLS, Tool
from ipistate.tools.transition import ToolCall, ToolError, Transition, call_tool, replay
from ipistate.kernel.values import JsonArray, JsonObject, JsonValue, freeze, identical, thaw
from ipistate.scoring.verifier import Verdict, verify


__all__ = [
    "TOOLS",
    "Change",
    "CheckpointError",
    "DecodeError",
    "Diff",
    "Effects",
    "EncodeError",
    "Environment",
    "IPICheckpointState",
    "IdempotencyError",
    "ImmutableError",
    "Injection",
    "IpiStateError",
    "JsonArray",
    "JsonObject",
    "JsonValue",
    "Resistance",
    "SchemaError",
    "Session",
    "SessionRangeError",
    "Step",
    "Task",
    "Tool",
    "ToolCall",
    "ToolError",
    "Transition",
    "Verdict",
    "aggregate",
    "assess",
    "call_tool",
    "decode",
    "diff",
    "encode",
    "freeze",
    "identical",
    "render",
    "replay",
    "resistance",
    "session_from_json",
    "session_to_json",
    "thaw",
    "verify",
]
