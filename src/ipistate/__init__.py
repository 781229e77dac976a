"""Immutable session state for indirect-prompt-injection environments."""

from ipistate.checkpoint.history import session_from_json, session_to_json
from ipistate.checkpoint.state import IPICheckpointState
from ipistate.codec import decode, encode, render
from ipistate.diff import Diff, diff
from ipistate.effects import Effects, assess
from ipistate.environment import Environment
from ipistate.errors import (
    CheckpointError,
    DecodeError,
    EncodeError,
    ImmutableError,
    IpiStateError,
    SchemaError,
)
from ipistate.injection import Injection
from ipistate.metrics import aggregate
from ipistate.operation import Change
from ipistate.resistance import Resistance, resistance
from ipistate.session import IdempotencyError, Session, SessionRangeError, Step
from ipistate.task import Task
from ipistate.tools import TOOLS, Tool
from ipistate.transition import ToolCall, ToolError, Transition, call_tool, replay
from ipistate.values import JsonArray, JsonObject, JsonValue, freeze, identical, thaw
from ipistate.verifier import Verdict, verify


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
