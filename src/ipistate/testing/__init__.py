"""Hypothesis strategies, laws and a stateful machine for tests of a user's own domain.

Needs ``hypothesis``; nothing else in the package imports it.
"""

from __future__ import annotations


try:
    import hypothesis as _hypothesis
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        "ipistate.testing needs hypothesis: pip install hypothesis", name=_error.name
    ) from _error

from ipistate.testing.calls import arguments, call_sequences, misspelt, tool_calls
from ipistate.testing.json_values import (
    json_names,
    json_numbers,
    json_objects,
    json_strings,
    json_values,
    plain_json,
)
from ipistate.testing.laws import (
    LAWS,
    LawBrokenError,
    check_declared_collections,
    check_failing_call_changes_nothing,
    check_forks_independent,
    check_pure,
    check_replay,
    check_restore_continues,
    check_rewind,
    check_round_trip,
    check_session_round_trip,
)
from ipistate.testing.machine import WorldMachine, world_machine
from ipistate.testing.scenario import Scenario, scenarios
from ipistate.testing.traces import chat_messages, output_items
from ipistate.testing.worlds import COMMON, damaged, rows, tables, worlds


del _hypothesis

__all__ = [
    "COMMON",
    "LAWS",
    "LawBrokenError",
    "Scenario",
    "WorldMachine",
    "arguments",
    "call_sequences",
    "chat_messages",
    "check_declared_collections",
    "check_failing_call_changes_nothing",
    "check_forks_independent",
    "check_pure",
    "check_replay",
    "check_restore_continues",
    "check_rewind",
    "check_round_trip",
    "check_session_round_trip",
    "damaged",
    "json_names",
    "json_numbers",
    "json_objects",
    "json_strings",
    "json_values",
    "misspelt",
    "output_items",
    "plain_json",
    "rows",
    "scenarios",
    "tables",
    "tool_calls",
    "world_machine",
    "worlds",
]
