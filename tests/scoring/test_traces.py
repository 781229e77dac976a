"""Recorded calls: what is read back is what was written, whoever wrote it down."""

from __future__ import annotations

import json

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hypothesis import assume, given
from hypothesis import strategies as st
from local_server import spoken_items

from ipistate import DecodeError, EncodeError, SchemaError, thaw
from ipistate.generate import builtin
from ipistate.kernel import (
    EMPTY_OBJECT,
    MAX_DEPTH,
    MAX_INTEGER_DIGITS,
    JsonObject,
    JsonValue,
)
from ipistate.scoring.stored_traces import calls_of, incomplete_reason, items_of
from ipistate.scoring.task import Task
from ipistate.scoring.trace_reading import calls_of_items, read_trace
from ipistate.scoring.traces import TracedCall, function_calls, read_arguments
from ipistate.sessions.session import Session, Step
from ipistate.testing import (
    json_objects,
    json_strings,
    json_values,
    plain_json,
    tool_calls,
)
from ipistate.testing import output_items as model_items
from ipistate.tools.transition import ToolCall


BODIES = [
    lambda output: json.dumps({"output": output}),
    lambda output: json.dumps({"output": output}, ensure_ascii=False, indent=1),
    lambda output: {"output": output},
    lambda output: output,
]
"""Ways in which recorders keep a reply."""


def _sessions() -> st.SearchStrategy[Session]:
    """Sessions of up to six calls on a built-in row."""
    return st.sampled_from(builtin.rows()).flatmap(
        lambda row: st.lists(tool_calls(row.environment), max_size=6).map(
            lambda calls: _stepped(Session(row.environment), calls)
        )
    )


def _stepped(session: Session, calls: list[ToolCall]) -> Session:
    for call in calls:
        session = session.step(call.name, call.arguments)
    return session


def _read(calls: tuple[TracedCall, ...]) -> list[tuple[str, Any, str | None]]:
    """Return what was recorded of each call: name, arguments, reply."""
    return [(one.name, thaw(read_arguments(one.written)), one.reply) for one in calls]


def _made(session: Session) -> list[tuple[str, Any, str | None]]:
    """Return the same of a session, without calls that have no name."""
    return [
        (step.call.name, thaw(step.call.arguments), step.output)
        for step in session.log
        if step.call.name
    ]


def items(
    steps: tuple[Step, ...], body: Callable[..., dict[str, str] | str], ids: list[Any]
) -> Iterator[dict[str, Any]]:
    """Write steps as Responses items, parallel calls first."""
    paired = list(zip(steps, ids, strict=False))
    for step, call_id in paired:
        arguments = json.dumps(thaw(step.call.arguments))
        call = {"type": "function_call", "name": step.call.name}
        yield {**call, "call_id": call_id, "arguments": arguments}
    for step, call_id in paired:
        output = body(step.output)
        yield {"type": "function_call_output", "call_id": call_id, "output": output}


def messages(
    steps: tuple[Step, ...], body: Callable[..., dict[str, str] | str], ids: list[Any]
) -> Iterator[dict[str, Any]]:
    """Write steps as a conversation, one assistant message for all of them."""
    paired = list(zip(steps, ids, strict=False))
    calls = [
        {
            "id": call_id,
            "type": "function",
            "function": {
                "name": step.call.name,
                "arguments": json.dumps(thaw(step.call.arguments)),
            },
        }
        for step, call_id in paired
    ]
    yield {"role": "user", "content": "Please."}
    yield {"role": "assistant", "content": None, "tool_calls": calls}
    for step, call_id in paired:
        yield {"role": "tool", "tool_call_id": call_id, "content": body(step.output)}


IDS = st.one_of(
    st.just([f"call_{number}" for number in range(6)]),
    st.just(["call_0"] * 6),
    st.lists(plain_json(2, 9), min_size=6, max_size=6, unique_by=json.dumps),
)
"""Ids as they should be, all the same, and anything."""


def _plain(session: Session) -> bool:
    # A plain text that looks like a body is read as one; the body is kept beside it.
    return all(not s.output.lstrip().startswith("{") for s in session.log)


@pytest.mark.parametrize("body", BODIES)
@given(session=_sessions(), ids=IDS)
def test_items_read_back(
    body: Callable[..., dict[str, str] | str], session: Session, ids: list[Any]
) -> None:
    """A session written as Responses items reads back to its own calls."""
    assume(body is not BODIES[3] or _plain(session))
    written = items(session.log, body, ids)

    assert _made(session) == _read(calls_of_items(written))


@pytest.mark.parametrize("body", BODIES)
@given(session=_sessions(), ids=IDS)
def test_messages_read_back(
    body: Callable[..., dict[str, str] | str], session: Session, ids: list[Any]
) -> None:
    """A session written as Chat Completions messages reads back to its own calls."""
    assume(body is not BODIES[3] or _plain(session))
    written = messages(session.log, body, ids)

    assert _made(session) == _read(read_trace(written).calls)


@given(session=_sessions())
def test_conversations_read_back(session: Session) -> None:
    """What the conversation of an agent writes is read back as well."""
    replies = [json.dumps({"output": step.output}).encode() for step in session.log]
    written = spoken_items([step.call for step in session.log], replies)

    assert _made(session) == _read(calls_of_items(written))


@given(row=st.sampled_from(builtin.rows()), data=st.data())
def test_calls_are_those_that_are_scored(row: Task, data: st.DataObject) -> None:
    """Function calls with a name are the calls, whatever stands around them."""
    given_items = data.draw(model_items(row.environment))
    named = [i["name"] for i in given_items if i["type"] == "function_call"]

    assert named == [call.name for call in calls_of_items(given_items)]


SHAPES = st.sampled_from(
    [
        *("type", "role", "name", "arguments", "call_id", "id", "output", "content"),
        *("tool_calls", "function", "function_call", "tool_call_id", "text"),
        *("response", "messages", "choices", "message"),
    ]
)
WORDS = st.sampled_from(
    [
        *("function_call", "function_call_output", "tool", "function", "assistant"),
        *("text", "output_text", "send_message", ""),
    ]
)
RUBBISH = st.recursive(
    st.one_of(WORDS, json_strings(), st.none(), st.booleans(), st.integers()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(SHAPES, inner, max_size=6)
    ),
    max_leaves=30,
)


@given(rubbish=RUBBISH)
def test_any_json_is_read(rubbish: Any) -> None:
    """Nothing that is JSON stops the reading; what is read is text."""
    found = [
        *calls_of_items([rubbish]),
        *read_trace([rubbish]).calls,
        *(calls_of({"response": rubbish, "messages": rubbish}) or ()),
    ]

    assert all(type(one.name) is str and type(one.written) is str for one in found)
    assert all(one.name for one in found)


@given(arguments=json_objects())
def test_arguments_read_back(arguments: JsonObject) -> None:
    """An object written once is that object."""
    assert thaw(arguments) == thaw(read_arguments(json.dumps(thaw(arguments))))


@pytest.mark.parametrize("text", ["", " \n", "{}", "\t{ }"])
def test_no_arguments(text: str) -> None:
    """An empty text is an empty object."""
    assert EMPTY_OBJECT == read_arguments(text)


@given(value=json_values())
def test_b74_only_an_object_is_arguments(value: JsonValue) -> None:
    """What is JSON but no object, an encoded object included, is refused."""
    assume(not isinstance(value, dict))
    with pytest.raises(SchemaError) as raised:
        read_arguments(json.dumps(thaw(value)))

    assert ("wrong_type", "$") == (raised.value.code, raised.value.path)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "syntax"),
        ("{} {}", "syntax"),
        ("{'a': 1}", "syntax"),
        ('{"a": NaN}', "not_finite"),
        ('{"a": 1e999}', "not_finite"),
        ('{"a": ' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}", "too_deep"),
        ('{"a": 1' + "0" * MAX_INTEGER_DIGITS + "}", "integer_too_large"),
    ],
)
def test_b74_broken_arguments(text: str, code: str) -> None:
    """What is not acceptable JSON is refused by the codec's rules."""
    with pytest.raises(DecodeError) as raised:
        read_arguments(text)

    assert code == raised.value.code


def test_b13_duplicate_keys_in_arguments() -> None:
    """The last of two equal keys counts, as it does for a tool."""
    assert {"a": 2} == read_arguments('{"a": 1, "a": 2}')


def _called(call_id: Any, **members: Any) -> dict[str, Any]:
    item = {"type": "function_call", "name": "a", "arguments": "{}", **members}
    return {**item, "call_id": call_id}


def _answered(call_id: Any, output: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


@pytest.mark.parametrize(
    ("given_items", "replies"),
    [
        ([_called("1"), _answered("1", "x")], ["x"]),
        ([_answered("1", "x"), _called("1")], [None]),
        ([_called("1"), _answered("2", "x")], [None]),
        ([_called("1"), _called("2"), _answered("2", "x")], [None, "x"]),
        ([_called("1"), _called("1"), _answered("1", "x")], ["x", None]),
        ([_called("1"), _answered("1", "x"), _answered("1", "y")], ["x"]),
        ([_called([1]), _answered([1], "x")], ["x"]),
        ([_called(None), _answered(None, "x")], ["x"]),
        ([_called("1"), _answered(1, "x")], [None]),
        ([_called(True), _answered(1, "x")], [None]),
        ([_called("1"), _answered("1", None)], [None]),
    ],
)
def test_reply_of_a_call(
    given_items: list[dict[str, Any]], replies: list[str | None]
) -> None:
    """A reply belongs to the first open call before it that has its id."""
    assert replies == [one.reply for one in calls_of_items(given_items)]


TEXT = {"type": "text", "text": "a"}
IMAGE = {"type": "input_image", "image_url": "data:"}


@pytest.mark.parametrize(
    ("recorded", "reply", "body"),
    [
        ("x", "x", None),
        ('{"output": "x"}', "x", '{"output": "x"}'),
        (' { "output" : "x" }', "x", ' { "output" : "x" }'),
        ({"output": "x"}, "x", '{"output": "x"}'),
        ('{"output": 1}', '{"output": 1}', None),
        ('{"output": "x", "a": 1}', '{"output": "x", "a": 1}', None),
        ('{"output": ', '{"output": ', None),
        ([TEXT, IMAGE, TEXT], "aa", None),
        ([{"type": "output_text", "text": '{"output": "x"}'}], "x", '{"output": "x"}'),
        ([{"type": "text", "text": 1}], "", None),
        ([{"type": ["text"], "text": "a"}], '[{"type": ["text"], "text": "a"}]', None),
        ([], "[]", None),
        ([{"a": 1}], '[{"a": 1}]', None),
        ({"a": 1}, '{"a": 1}', None),
        (1, "1", None),
        (float("nan"), "not JSON: JSON has no NaN and no infinities", None),
        ("\ud83d\ude00", "\U0001f600", None),
    ],
)
def test_forms_of_a_reply(recorded: Any, reply: str, body: str | None) -> None:
    """A reply is text, content parts, or JSON; a body around it is taken off."""
    (call,) = calls_of_items([_called("1"), _answered("1", recorded)])

    assert (reply, body) == (call.reply, call.body)


@pytest.mark.parametrize(
    ("members", "written"),
    [
        ({}, "{}"),
        ({"arguments": {"a": 1}}, '{"a": 1}'),
        ({"arguments": None}, "null"),
        ({"arguments": [1]}, "[1]"),
        ({"arguments": '{"a"'}, '{"a"'),
    ],
)
def test_written_arguments(members: dict[str, Any], written: str) -> None:
    """Arguments stay as they were written; an object is written as JSON."""
    item = {"type": "function_call", "name": "a", "call_id": "1", **members}

    assert (TracedCall(name="a", written=written),) == calls_of_items([item])


@pytest.mark.parametrize(
    "arguments", [{"a": float("inf")}, {"a": 10**MAX_INTEGER_DIGITS}]
)
def test_object_that_json_cannot_carry(arguments: dict[str, float]) -> None:
    """Arguments that only Python can hold are refused as broken text is."""
    (call,) = calls_of_items([_called("1", arguments=arguments)])

    with pytest.raises(DecodeError):
        read_arguments(call.written)


@pytest.mark.parametrize("name", [None, "", 1, ["a"], {"a": 1}])
def test_calls_without_a_name(name: Any) -> None:
    """A call that names no tool is passed over, as in scoring."""
    assert () == calls_of_items([_called("1", name=name)])


def test_other_items_are_passed_over() -> None:
    """Items of other types, and what is no item at all, are no calls."""
    others: list[Any] = [
        None,
        True,
        1,
        1.5,
        "text",
        [],
        {},
        {"type": "mcp_call", "name": "a"},
    ]

    assert () == calls_of_items(others)


@pytest.mark.parametrize(
    "given_items",
    [[object()], [_called("1", arguments=object())], [_called("1", arguments={1: 2})]],
)
def test_objects_of_an_sdk(given_items: list[Any]) -> None:
    """What is not JSON at all is an error, not a call that nobody made."""
    with pytest.raises(EncodeError):
        calls_of_items(given_items)


def test_older_function_calls() -> None:
    """A message's function_call is a call; its reply has a name instead of an id."""
    call = {"name": "a", "arguments": "{}"}
    conversation = [
        {"role": "assistant", "content": None, "function_call": call},
        {"role": "function", "name": "b", "content": "no"},
        {"role": "function", "name": "a", "content": "yes"},
    ]

    assert (
        TracedCall(name="a", written="{}", reply="yes"),
    ) == read_trace(conversation).calls  # fmt: skip


def test_calls_of_a_conversation_that_are_no_functions() -> None:
    """Custom tools and whatever else stands among tool_calls is passed over."""
    calls = [None, {"id": "1", "custom": {"name": "a"}}, {"id": "1", "function": 1}]

    assert () == read_trace([{"role": "assistant", "tool_calls": calls}]).calls


ITEM = _called("1", name="item")
MESSAGE = {"role": "assistant", "tool_calls": [{"function": {"name": "message"}}]}
OTHER = {"role": "assistant", "tool_calls": [{"function": {"name": "other"}}]}


@pytest.mark.parametrize(
    ("rollout", "names"),
    [
        ({"response": {"output": [ITEM]}, "messages": [MESSAGE]}, ["item"]),
        ({"response": {"id": "r"}, "messages": [MESSAGE]}, ["message"]),
        ({"response": [], "messages": [MESSAGE]}, ["message"]),
        (
            {"response": {"choices": [{"message": MESSAGE}, {"message": OTHER}]}},
            ["message"],
        ),
        ({"response": {"choices": []}}, []),
        ({"response": {"choices": [1]}}, []),
        ({"messages": []}, []),
    ],
)
def test_forms_of_a_rollout(rollout: dict[str, Any], names: list[str]) -> None:
    """Responses items come first, then a conversation, then a first choice."""
    calls = calls_of(rollout)

    assert calls is not None
    assert names == [call.name for call in calls]


@pytest.mark.parametrize(
    "rollout", [{}, {"response": None}, {"response": {"output": {}}}, {"messages": "x"}]
)
def test_rollouts_without_a_trace(rollout: dict[str, Any]) -> None:
    """A document without any known trace is none."""
    assert calls_of(rollout) is None


@given(model_items(builtin.rows()[0].environment))
def test_function_calls_are_those_with_a_name(items: list[Any]) -> None:
    """One reader finds the calls that the other one reads."""
    found = [item["name"] for item in function_calls(items)]

    assert found == [call.name for call in calls_of_items(items)]


def test_an_item_that_is_not_json_is_no_call() -> None:
    """An SDK's object is refused where it stands."""
    with pytest.raises(EncodeError) as caught:
        list(function_calls([{"type": "message"}, object()]))

    assert ("unsupported_type", "$[1]") == (caught.value.code, caught.value.path)


@given(st.lists(tool_calls(builtin.rows()[0].environment), max_size=4))
def test_a_call_is_written_as_an_item(calls: list[ToolCall]) -> None:
    """A call that is recorded and written as an item reads as itself."""
    recorded = [TracedCall.of(call) for call in calls if call.name]

    assert tuple(recorded) == calls_of_items(one.to_item() for one in recorded)
    assert [one.arguments for one in recorded] == [c.arguments for c in calls if c.name]


def test_unreadable_arguments_are_none() -> None:
    """What the rule for arguments refuses, a call does not have."""
    assert TracedCall(name="t", written="[1]").arguments is None
    assert TracedCall(name="t", written="").arguments == EMPTY_OBJECT


CALL = {"name": "t", "arguments": "{}"}


@pytest.mark.parametrize(
    ("rollout", "places"),
    [
        ({"response": {"output": [3, {"type": "function_call", **CALL}]}}, [1]),
        (
            {
                "messages": [
                    {"role": "user", "content": "Hi"},
                    {"tool_calls": [{"function": CALL}, {"function": CALL}]},
                    {"function_call": CALL},
                ]
            },
            [1, 1, 2],
        ),
        (
            {"response": {"choices": [{"message": {"function_call": CALL}}, {}]}},
            [0],
        ),
    ],
)
def test_calls_know_where_they_stand(
    rollout: dict[str, Any], places: list[int]
) -> None:
    """Each call has the position of the item that makes it."""
    found: Any = items_of(rollout)

    calls = calls_of(rollout)
    assert calls is not None
    assert places == [call.item for call in calls]
    assert all(json.dumps(CALL)[1:-1] in json.dumps(found[n]) for n in places)


def test_a_rollout_without_a_trace_has_no_items() -> None:
    """Without any known form there are neither items nor calls."""
    assert items_of({"response": {"output": "text"}}) is None


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ({"reason": "max_output_tokens"}, "max_output_tokens"),
        ({"reason": 3}, None),
        ({}, None),
        (None, None),
        ("max_output_tokens", None),
    ],
)
def test_the_reason_of_an_incomplete_response(
    details: dict[str, Any] | None, reason: str | None
) -> None:
    """The reason is a text in the details, or there is none."""
    assert reason == incomplete_reason({"incomplete_details": details})
