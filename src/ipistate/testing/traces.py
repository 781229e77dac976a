"""Strategies for traces as they really come: output items, and conversations."""

from __future__ import annotations

import json

from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from ipistate.kernel import thaw
from ipistate.testing.calls import arguments
from ipistate.testing.json_values import json_strings, plain_json
from ipistate.tools import TOOLS, Tool


if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypothesis.strategies import SearchStrategy

    from ipistate.kernel import Environment

_IDS: Final = st.sampled_from(("call_1", "call_2"))


def output_items(
    environment: Environment, tools: Mapping[str, Tool] = TOOLS
) -> SearchStrategy[list[dict[str, Any]]]:
    """Lists of Responses API output items with calls of the given tools.

    Arguments are JSON text; now and then it is broken, encoded twice or no object.
    Messages, reasoning and call outputs stand between the calls.
    """
    call = st.sampled_from(sorted(tools)).flatmap(
        lambda name: _call(tools[name], environment)
    )
    return st.lists(st.one_of(call, call, _other()), max_size=6)


def chat_messages(
    environment: Environment, tools: Mapping[str, Tool] = TOOLS
) -> SearchStrategy[list[dict[str, Any]]]:
    """Chat Completions conversations with calls of the given tools.

    Arguments are as in ``output_items``. A message may have several calls, and some of
    them are never answered.
    """
    function = st.sampled_from(sorted(tools)).flatmap(
        lambda name: _function(tools[name], environment)
    )
    calls = st.lists(function, max_size=3)
    return st.lists(_chat_message(calls), max_size=6)


def _members(**members: SearchStrategy[Any] | str) -> SearchStrategy[dict[str, Any]]:
    """Objects with these members; a text is that constant."""
    drawn = {n: st.just(m) if isinstance(m, str) else m for n, m in members.items()}
    return st.fixed_dictionaries(drawn)


def _function(tool: Tool, environment: Environment) -> SearchStrategy[dict[str, Any]]:
    written = _members(name=tool.name, arguments=_written(tool, environment))
    return _members(id=_IDS, type="function", function=written)


def _chat_message(
    calls: SearchStrategy[list[dict[str, Any]]],
) -> SearchStrategy[dict[str, Any]]:
    said = json_strings()
    role = st.sampled_from(("system", "user", "assistant"))
    return st.one_of(
        _members(role="assistant", content=st.none() | said, tool_calls=calls),
        _members(role="tool", tool_call_id=_IDS, content=said),
        _members(role=role, content=said),
    )


def _written(tool: Tool, environment: Environment) -> SearchStrategy[str]:
    good = arguments(tool, environment).map(lambda given: json.dumps(thaw(given)))
    odd = st.one_of(
        good.map(json.dumps),
        good.map(lambda text: text[:-1]),
        plain_json(3).map(json.dumps),
        json_strings(),
    )
    return st.one_of(good, good, good, odd)


def _call(tool: Tool, environment: Environment) -> SearchStrategy[dict[str, Any]]:
    return _members(
        type="function_call",
        call_id=_IDS,
        name=tool.name,
        arguments=_written(tool, environment),
    )


def _other() -> SearchStrategy[dict[str, Any]]:
    text = _members(type="output_text", text=json_strings())
    parts = st.lists(text, max_size=2)
    return st.one_of(
        _members(type="message", role="assistant", content=parts),
        _members(type="function_call_output", call_id="call_1", output=json_strings()),
        _members(type="reasoning", summary=st.lists(text, max_size=1)),
    )
