"""What type checkers infer for users of sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_type

from ipistate import (
    TOOLS,
    Environment,
    Session,
    Step,
    Tool,
    ToolCall,
    ToolError,
    session_from_json,
    session_to_json,
)


def sessions(seed: Environment) -> None:
    """Every operation gives a session, and a step says what it holds."""
    session = Session(seed).step("get_inbox").step("get_inbox", {"a": [1]})
    assert_type(session, Session)
    assert_type(session.fork(2), tuple[Session, ...])
    assert_type(session.at(0).rewind(0), Session)
    assert_type(session.history(), Iterator[Session])
    assert_type(session.once("key", "get_inbox"), tuple[Session, Step])
    assert_type(session.environment, Environment)
    assert_type(session.worlds, tuple[Environment, ...])
    assert_type(session.seed_digest, str)
    for step in session.log:
        assert_type(step.call, ToolCall)
        assert_type(step.error, ToolError | None)
        assert_type(step.key, str | None)


def tools(seed: Environment, own: Mapping[str, Tool]) -> None:
    """A session has the tools that it was given, and a call may have others."""
    session = Session(seed, tools=own)
    assert_type(session, Session)
    assert_type(session.tools, Mapping[str, Tool])
    assert_type(session.step("get_inbox", tools=TOOLS).tools, Mapping[str, Tool])
    assert_type(session.call("get_inbox"), tuple[Session, str])


def storage(session: Session) -> None:
    """A session goes to bytes and comes back."""
    assert_type(session_to_json(session), bytes)
    assert_type(session_from_json(session_to_json(session)), Session)
