"""Immutable session state for indirect-prompt-injection environments."""

from ipistate.codec import decode, encode, render
from ipistate.environment import Environment
from ipistate.errors import DecodeError, EncodeError, IpiStateError, SchemaError
from ipistate.tools import TOOLS, Tool
from ipistate.transition import ToolCall, ToolError, Transition, call_tool, replay
from ipistate.values import JsonArray, JsonObject, JsonValue, freeze, identical, thaw


__all__ = [
    "TOOLS",
    "DecodeError",
    "EncodeError",
    "Environment",
    "IpiStateError",
    "JsonArray",
    "JsonObject",
    "JsonValue",
    "SchemaError",
    "Tool",
    "ToolCall",
    "ToolError",
    "Transition",
    "call_tool",
    "decode",
    "encode",
    "freeze",
    "identical",
    "render",
    "replay",
    "thaw",
]
