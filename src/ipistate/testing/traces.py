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
    return st.lists(st.one_of(_turn(calls), _answer(), _said()), max_size=6)


def _function(tool: Tool, environment: Environment) -> SearchStrategy[dict[str, Any]]:
    written = st.fixed_dictionaries(
        {"name": st.just(tool.name), "arguments": _written(tool, environment)}
    )
    return st.fixed_dictionaries(
        {"id": _IDS, "type": st.just("function"), "function": written}
    )


def _turn(
    calls: SearchStrategy[list[dict[str, Any]]],
) -> SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "role": st.just("assistant"),
            "content": st.none() | json_strings(),
            "tool_calls": calls,
        }
    )


def _answer() -> SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"role": st.just("tool"), "tool_call_id": _IDS, "content": json_strings()}
    )


def _said() -> SearchStrategy[dict[str, Any]]:
    role = st.sampled_from(("system", "user", "assistant"))
    return st.fixed_dictionaries({"role": role, "content": json_strings()})


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
    return st.fixed_dictionaries(
        {
            "type": st.just("function_call"),
            "call_id": _IDS,
            "name": st.just(tool.name),
            "arguments": _written(tool, environment),
        }
    )


def _other() -> SearchStrategy[dict[str, Any]]:
    text = st.fixed_dictionaries(
        {"type": st.just("output_text"), "text": json_strings()}
    )
    message = st.fixed_dictionaries(
        {
            "type": st.just("message"),
            "role": st.just("assistant"),
            "content": st.lists(text, max_size=2),
        }
    )
    reply = st.fixed_dictionaries(
        {
            "type": st.just("function_call_output"),
            "call_id": st.just("call_1"),
            "output": json_strings(),
        }
    )
    thought = st.fixed_dictionaries(
        {"type": st.just("reasoning"), "summary": st.lists(text, max_size=1)}
    )
    return st.one_of(message, reply, thought)
