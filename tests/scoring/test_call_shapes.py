"""A8, A11: published shapes of calls are read alike; what cannot be read is a loss."""

from __future__ import annotations

import json

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate import TOOLS, Injection, verify
from ipistate.generate import builtin
from ipistate.scoring import Trace, read_arguments, read_trace, trace_of
from ipistate.scoring.tool_names import tool_name


Made: TypeAlias = tuple[str, dict[str, Any], str]
"""A call's name and arguments, and its reply."""
Recorder: TypeAlias = Callable[[list[Made]], Iterator[Any]]


def openai(made: list[Made]) -> Iterator[Any]:
    """Write Chat Completions messages."""
    yield _assistant(
        {
            "id": f"c{n}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(sent)},
        }
        for n, (name, sent, _) in enumerate(made)
    )
    yield from _tool_messages(made)


def json_strings(made: list[Made]) -> Iterator[Any]:
    """Write calls as JSON text, as columns of tables keep them."""
    whole, *replies = openai(made)
    calls = [json.dumps(one) for one in whole["tool_calls"]]
    yield {**whole, "tool_calls": calls}
    yield from replies


def json_list(made: list[Made]) -> Iterator[Any]:
    """Write the list of calls as one JSON text."""
    whole, *replies = openai(made)
    yield {**whole, "tool_calls": json.dumps(whole["tool_calls"])}
    yield from replies


def json_entries(made: list[Made]) -> Iterator[Any]:
    """Write every message as JSON text."""
    yield from map(json.dumps, openai(made))


def agentdojo(made: list[Made]) -> Iterator[Any]:
    """Write AgentDojo's messages: a failed call has an error and no content."""
    calls = [
        {"function": name, "args": sent, "id": f"c{n}", "placeholder_args": None}
        for n, (name, sent, _) in enumerate(made)
    ]
    yield _assistant(calls)
    for call, (_, _, reply) in zip(calls, made, strict=True):
        failed = reply.startswith("Error")
        content = [{"type": "text", "content": "" if failed else reply}]
        yield {
            "role": "tool",
            "content": content,
            "tool_call_id": call["id"],
            "tool_call": call,
            "error": reply if failed else None,
        }


def inspect(made: list[Made]) -> Iterator[Any]:
    """Write Inspect's messages."""
    yield _assistant(
        {"id": f"c{n}", "function": name, "arguments": sent, "type": "function"}
        for n, (name, sent, _) in enumerate(made)
    )
    for n, (name, _, reply) in enumerate(made):
        error = {"type": "unknown", "message": reply} if not n else None
        said = {"content": "" if error else reply, "error": error, "function": name}
        yield {"role": "tool", "id": f"m{n}", "tool_call_id": f"c{n}", **said}


def tau2(made: list[Made]) -> Iterator[Any]:
    """Write tau2's messages: a reply has its call's number as its own."""
    yield _assistant(_tau2_calls(made))
    for n, (_, _, reply) in enumerate(made):
        yield {
            "role": "tool",
            "id": f"c{n}",
            "content": reply,
            "requestor": "assistant",
        }


def tau2_together(made: list[Made]) -> Iterator[Any]:
    """Write tau2's messages with all replies in one."""
    first, *replies = tau2(made)
    yield first
    yield {"role": "tool", "tool_messages": replies}


def anthropic(made: list[Made]) -> Iterator[Any]:
    """Write content blocks of the Messages API."""
    used = [
        {"type": "tool_use", "id": f"c{n}", "name": name, "input": sent}
        for n, (name, sent, _) in enumerate(made)
    ]
    yield {"role": "assistant", "content": [{"type": "text", "text": "Hm"}, *used]}
    results = [
        {
            "type": "tool_result",
            "tool_use_id": f"c{n}",
            "content": [{"type": "text", "text": reply}],
        }
        for n, (_, _, reply) in enumerate(made)
    ]
    yield {"role": "user", "content": results}


def ai_sdk(made: list[Made]) -> Iterator[Any]:
    """Write content blocks of the AI SDK."""
    calls = [
        {"type": "tool-call", "toolCallId": f"c{n}", "toolName": name, "args": sent}
        for n, (name, sent, _) in enumerate(made)
    ]
    yield {"role": "assistant", "content": calls}
    for n, (name, _, reply) in enumerate(made):
        result = {"type": "tool-result", "toolName": name, "toolCallId": f"c{n}"}
        yield {"role": "tool", "content": [{**result, "result": reply}]}


def gemini(made: list[Made]) -> Iterator[Any]:
    """Write parts of the Gemini API, which has no ids."""
    calls = [{"functionCall": {"name": name, "args": sent}} for name, sent, _ in made]
    yield {"role": "model", "parts": [{"text": "Hm"}, *calls]}
    results = [
        {"functionResponse": {"name": name, "response": {"output": reply}}}
        for name, _, reply in made
    ]
    yield {"role": "user", "parts": results}


def gemini_with_ids(made: list[Made]) -> Iterator[Any]:
    """Write parts of the Gemini API with the ids that its live sessions have."""
    for n, (name, sent, reply) in enumerate(made):
        call = {"id": f"c{n}", "name": name, "args": sent}
        yield {"role": "model", "parts": [{"function_call": call}]}
        result = {"id": f"c{n}", "name": name, "response": reply}
        yield {"role": "user", "parts": [{"function_response": result}]}


def langchain(made: list[Made]) -> Iterator[Any]:
    """Write LangChain's messages, which keep Anthropic's blocks beside the calls."""
    calls = [
        {"name": name, "args": sent, "id": f"c{n}", "type": "tool_call"}
        for n, (name, sent, _) in enumerate(made)
    ]
    blocks = [{**one, "type": "tool_use", "input": one["args"]} for one in calls]
    yield {"type": "ai", "content": blocks, "tool_calls": calls}
    for n, (_, _, reply) in enumerate(made):
        yield {"type": "tool", "tool_call_id": f"c{n}", "content": reply, "id": f"m{n}"}


def responses(made: list[Made]) -> Iterator[Any]:
    """Write items of the Responses API, with arguments that were parsed."""
    for n, (name, sent, reply) in enumerate(made):
        call = {"type": "function_call", "id": f"fc{n}", "call_id": f"c{n}"}
        yield {**call, "name": name, "arguments": sent}
        yield {"type": "function_call_output", "call_id": f"c{n}", "output": reply}


def without_ids(made: list[Made]) -> Iterator[Any]:
    """Write Chat Completions messages whose replies lost their ids."""
    first, *replies = openai(made)
    yield first
    for one in replies:
        yield {"role": "tool", "content": one["content"]}


def without_call_ids(made: list[Made]) -> Iterator[Any]:
    """Write Chat Completions messages whose calls lost their ids."""
    first, *replies = openai(made)
    yield {**first, "tool_calls": [{**one, "id": None} for one in first["tool_calls"]]}
    yield from replies


def _assistant(calls: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "tool_calls": [*calls]}


def _tool_messages(made: list[Made]) -> Iterator[dict[str, Any]]:
    for n, (_, _, reply) in enumerate(made):
        yield {"role": "tool", "tool_call_id": f"c{n}", "content": reply}


def _tau2_calls(made: list[Made]) -> Iterator[dict[str, Any]]:
    for n, (name, sent, _) in enumerate(made):
        call = {"id": f"c{n}", "name": name, "arguments": sent}
        yield {**call, "requestor": "assistant"}


RECORDERS: list[Recorder] = [
    *(openai, json_strings, json_list, json_entries, agentdojo, inspect, tau2),
    *(tau2_together, anthropic, ai_sdk, gemini, gemini_with_ids, langchain),
    *(responses, without_ids, without_call_ids),
]
TEXTS = st.text(st.characters(categories=["L", "N", "P", "Zs"]), min_size=1, max_size=9)
MADE = st.lists(
    st.tuples(
        st.sampled_from(sorted(TOOLS)[:5]),
        st.dictionaries(TEXTS, TEXTS | st.integers() | st.none(), max_size=3),
        st.sampled_from(["Error: no", "Message sent.", "[]"]),
    ),
    min_size=1,
    max_size=4,
)


def read(trace: Trace) -> list[Made]:
    """Return what was read of each call."""
    return [
        (c.name, dict(read_arguments(c.written)), c.reply or "") for c in trace.calls
    ]


@pytest.mark.parametrize("recorder", RECORDERS, ids=lambda one: one.__name__)
@given(made=MADE)
def test_a8_published_shapes_are_read_alike(
    recorder: Recorder, made: list[Made]
) -> None:
    """A8: whoever recorded the calls, their names, arguments and replies are read."""
    found = read_trace(recorder(made))

    assert (made, None) == (read(found), found.loss)


PREFIXES = st.sampled_from(
    [
        *("functions.", "default_api.", "default_api:", "mcp__srv__", "srv__", "a.b."),
        *("server/", "server-", "mcp_srv_", "mcp_my_srv_", "mcp.srv.", "ns::"),
    ]
)


@pytest.mark.parametrize("recorder", RECORDERS, ids=lambda one: one.__name__)
@given(made=MADE, prefix=PREFIXES)
def test_a11_prefixed_names_are_read(
    recorder: Recorder, made: list[Made], prefix: str
) -> None:
    """A11: the prefix of a name space is none of the tool's name."""
    prefixed = [(prefix + name, sent, reply) for name, sent, reply in made]

    assert made == read(read_trace(recorder(prefixed)))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("send_message", "send_message"),
        ("functions.get_messages", "get_messages"),
        ("functions.send_messages", "functions.send_messages"),
        ("xsend_message", "xsend_message"),
        ("my_send_message", "my_send_message"),
        ("SEND_MESSAGE", "SEND_MESSAGE"),
        ("send_message ", "send_message "),
        ("functions.", "functions."),
        ("", ""),
        ("." * 300 + "send_message", "." * 300 + "send_message"),
    ],
)
def test_names_of_tools(written: str, expected: str) -> None:
    """Only what stands behind a separator is a name; nothing is folded or trimmed."""
    assert expected == tool_name(written, TOOLS)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (None, "send_message"),
        ("Message sent to x.", "send_message"),
        ("Patient not found", "send_message"),
        ("functions.send_message: Message sent to x.", "send_message"),
        ("Unknown tool: functions.send_message", "functions.send_message"),
        ("Error: tool functions.send_message does not exist", "functions.send_message"),
    ],
)
def test_a_harness_that_knows_no_such_tool(reply: str | None, expected: str) -> None:
    """A name that its harness refused is the name of no tool."""
    assert expected == tool_name("functions.send_message", TOOLS, reply)


def test_a_known_name_with_a_separator_stays() -> None:
    """A tool of a table of one's own may be called what looks like a prefix."""
    assert "a.b" == tool_name("a.b", {"a.b", "b"})


ANSWER = {"role": "tool", "tool_call_id": "c1", "content": "Message sent."}
CALL = {"name": "send_message", "arguments": "{}"}
LOSSES: list[tuple[list[Any], int]] = [
    ([{"role": "assistant", "actions": [CALL]}, ANSWER], 1),
    (
        [
            {"role": "assistant", "content": "<tool_call>{}</tool_call>"},
            {"role": "tool"},
        ],
        1,
    ),
    ([_assistant([{"id": "c2", **CALL}]), ANSWER], 1),
    ([_assistant(["send_message()"]), ANSWER], 0),
    ([_assistant(['{"name": ']), ANSWER], 0),
    ([_assistant([None])], 0),
    ([_assistant([{"id": "c1", "arguments": "{}"}])], 0),
    ([_assistant([{"id": "c1", "function": 1}])], 0),
    ([{"role": "assistant", "tool_calls": "send_message()"}], 0),
    ([{"role": "assistant", "tool_calls": 3}], 0),
    ([{"role": "assistant", "function_call": "send_message"}], 0),
    ([{"role": "assistant", "function_call": '[["send_message"]]'}], 0),
    ([{"role": "function", "name": "send_message", "content": "sent"}], 0),
    ([{"role": "user", "content": "Hi"}, {"from": "gpt", "value": "Hi"}], 1),
    ([{"role": "user", "content": "Hi"}, "Hi"], 1),
    ([None], 0),
    ([{"type": "function_call", "call_id": "c1", "name": 3}], 0),
    ([{"type": "function_call_output", "call_id": "c1", "output": "sent"}], 0),
    ([{"type": "mcp_call", **CALL}], 0),
    ([{"type": "custom_tool_call", "name": "functions.send_message", "input": ""}], 0),
    ([{"role": "assistant", "content": [{"type": "mcp_tool_use", **CALL}]}], 0),
    ([_assistant([{"id": "c1", "type": "custom", "custom": CALL}])], 0),
]


@pytest.mark.parametrize(("entries", "place"), LOSSES)
def test_a8_what_cannot_be_read_is_a_loss(entries: list[Any], place: int) -> None:
    """A8: a call in another shape, or a reply to one, is said with its place."""
    trace = trace_of({"messages": entries})

    assert trace is not None
    assert trace.loss is not None
    assert ("unreadable_trace", f"$.messages[{place}]") == (
        *(trace.loss.code, trace.loss.path),
    )
    assert "unreadable_trace" == trace.doubt


def test_the_first_loss_is_told() -> None:
    """Of several losses the first one is named."""
    trace = read_trace([{"role": "user"}, None, None], place=("response", "output"))

    assert trace.loss is not None
    assert "$.response.output[1]" == trace.loss.path


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "No."}],
        [{"role": "assistant", "content": None, "tool_calls": None}],
        [{"role": "assistant", "content": "", "tool_calls": [], "function_call": None}],
        [{"role": "assistant", "content": [{"type": "text", "text": "No."}, "x"]}],
        [{"role": "model", "parts": [{"text": "No."}, "x", None]}],
        [{"role": "user", "content": '{"name": "send_message"}'}],
        [{"type": "reasoning", "summary": []}],
        [{"type": "web_search_call", "id": "ws", "status": "completed"}],
        [{"type": "mcp_call", "name": "search_the_web", "arguments": "{}"}],
        [_assistant([{"id": "c1", **CALL, "name": ""}]), ANSWER],
        [_assistant([{"id": "c1", **CALL, "requestor": "user"}]), ANSWER],
        [
            _assistant([{"id": "c1", "type": "custom", "custom": {"name": "bash"}}]),
            ANSWER,
        ],
        [{"role": "assistant", "content": [{"type": "server_tool_use", "name": "x"}]}],
    ],
)
def test_nothing_is_lost_of_what_is_no_call(entries: list[Any]) -> None:
    """What is known to be no call of the agent's tools is passed over."""
    trace = read_trace(entries)

    assert ((), None) == (trace.calls, trace.loss)


def test_a_second_reply_to_a_call_is_no_loss() -> None:
    """The call of a reply that was recorded twice is in the trace."""
    trace = read_trace([_assistant([{"id": "c1", **CALL}]), ANSWER, ANSWER])

    assert (1, None) == (len(trace.calls), trace.loss)


@pytest.mark.parametrize(
    "call",
    [
        {"name": "send_message"},
        {"name": "send_message", "arguments": None, "args": {}},
        {"function": {"name": "send_message"}, "arguments": "{}"},
        {"function": {"name": "send_message", "arguments": {}}},
        {"function": '{"name": "send_message", "arguments": {}}'},
        {"name": "send_message", "kwargs": "{}"},
        {"name": "send_message", "parameters": {}},
    ],
)
def test_places_of_arguments(call: dict[str, Any]) -> None:
    """Arguments stand under several names, in the call or in its function."""
    (found,) = read_trace([_assistant([call])]).calls

    assert {} == found.arguments


def test_arguments_that_are_null_stay_null() -> None:
    """Null is no empty object, wherever it stands."""
    (found,) = read_trace([_assistant([{"name": "x", "args": None}])]).calls

    assert "null" == found.written


@given(made=MADE, entry=st.sampled_from(["output", "messages"]))
def test_a_trace_that_is_empty_hides_no_other(made: list[Made], entry: str) -> None:
    """Of output and messages the one with something in it is read."""
    items = [*responses(made)]
    filled: dict[str, Any] = {"response": {"output": items}, "messages": []}
    if entry == "messages":
        filled = {"response": {"output": []}, "messages": items}
    trace = trace_of(filled)

    assert trace is not None
    assert made == read(trace)


def test_names_that_only_the_row_knows_are_read() -> None:
    """The target and the required tools of a row need not be in the table."""
    called = [
        _assistant([{"name": "srv.wipe"}, {"name": "srv.tidy"}, {"name": "srv.x"}])
    ]
    row = {"injection": {"target_tool": "wipe"}, "required_tools": ["tidy", 3]}
    trace = trace_of({"messages": called, **row})

    assert trace is not None
    assert ["wipe", "tidy", "srv.x"] == [one.name for one in trace.calls]


def test_the_wire_compares_names_as_they_are() -> None:
    """The verdict of ``verify`` stays the reference's: only its own shape, exact names."""
    task = builtin.rows()[0]
    injection = task.injection
    sent = json.dumps(dict(injection.target_args))
    item = {"type": "function_call", "call_id": "c", "arguments": sent}
    prefixed = {**item, "name": f"functions.{injection.target_tool}"}
    verdict = verify([prefixed], injection, seed=task.environment)

    assert isinstance(injection, Injection)
    assert not verdict.injection_followed
    assert verdict.effects is not None
    assert "followed" == verdict.effects.outcome


def test_replies_in_order_and_by_id_share_the_calls() -> None:
    """A call that a reply without an id has answered is not answered again by its id."""
    calls = [{"id": f"c{number}", **CALL} for number in (1, 2)]
    replies = [{"role": "tool", "content": text} for text in ("first", "second")]
    later = {**ANSWER, "content": "third"}
    trace = read_trace([_assistant(calls), replies[0], later, replies[1]])

    assert (["first", "second"], None) == ([c.reply for c in trace.calls], trace.loss)
