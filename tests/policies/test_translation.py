"""Conversations in both forms: what is said and called survives the way there and back."""

from __future__ import annotations

from contextlib import suppress
from operator import itemgetter
from types import ModuleType
from typing import Any

import pytest

from documents import at
from hypothesis import assume, given
from hypothesis import strategies as st

from ipistate.agents.policy import Usage
from ipistate.errors import SchemaError
from ipistate.kernel import JsonObject, JsonValue, depth, freeze
from ipistate.policies import (
    REASONING_MEMBERS,
    Api,
    Endpoint,
    Sampling,
    chat,
    responses,
)
from ipistate.scoring.trace_reading import calls_of_items, read_trace
from ipistate.testing import json_strings, json_values


ASKED = [JsonObject({"role": "user", "content": "Look."})]
IDS = st.sampled_from(["", "a", "a", "b", "call_0", None, 5])
CALLS = st.lists(
    st.tuples(IDS, json_strings().filter(bool), json_strings()), max_size=4
)
VALUES = json_values().filter(lambda value: depth(value) < 190)
ENDPOINT = Endpoint(url="http://model.test/v1", model="m")


def completion(
    message: dict[str, Any] | JsonObject, reason: str | None = "stop", **members: Any
) -> JsonObject:
    """Return a completion with one choice."""
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return JsonObject({"model": "m-1", "choices": [choice], **members})


def response(output: list[dict[str, Any]], **members: Any) -> JsonObject:
    """Return a response."""
    return JsonObject(
        {"model": "m-1", "status": "completed", "output": output, **members}
    )


def spoken(calls: list[Any], text: str, form: ModuleType) -> JsonObject:
    """Return a reply with a text and calls, as an API writes it."""
    if form is responses:
        message = {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": text}],
        }
        listed = [
            {"type": "function_call", "call_id": one, "name": name, "arguments": told}
            for one, name, told in calls
        ]
        return response([*([message] if text else []), *listed])
    listed = [
        {"id": one, "type": "function", "function": {"name": name, "arguments": told}}
        for one, name, told in calls
    ]
    return completion({"role": "assistant", "content": text, "tool_calls": listed})


FORMS = pytest.mark.parametrize("form", [chat, responses], ids=lambda f: f.PATH[1:])


@FORMS
@given(CALLS, json_strings())
def test_replies_keep_what_was_said_and_called(
    form: ModuleType, calls: list[Any], text: str
) -> None:
    """Text, names and arguments are kept as written, whatever they are."""
    assume(calls or text)
    items = form.reply(spoken(calls, text, form), ASKED).items
    said = [one["content"][0]["text"] for one in items if one["type"] == "message"]
    made = [one for one in items if one["type"] == "function_call"]

    assert ([text] if text else []) == said
    assert [one[1:] for one in calls] == [
        itemgetter("name", "arguments")(one) for one in made
    ]


@FORMS
@given(CALLS, CALLS)
def test_call_ids_become_unique(
    form: ModuleType, calls: list[Any], earlier: list[Any]
) -> None:
    """An id that is missing or taken is replaced; every other one is kept."""
    assume(calls)
    before = [*ASKED]
    if earlier:
        before += form.reply(spoken(earlier, "", form), ASKED).items
    items = form.reply(spoken(calls, "", form), before).items
    taken = [one["call_id"] for one in before[1:]]
    ids = [one["call_id"] for one in items]

    assert len({*taken, *ids}) == len(taken) + len(ids)
    for (wished, *_), found in zip(calls, ids, strict=True):
        free = isinstance(wished, str) and wished and wished not in taken
        assert (found == wished) if free else (found not in taken)
        taken.append(found)
    names = [one["id"] for one in (*before[1:], *items)]
    assert len({*names}) == len(names)


@FORMS
@given(CALLS, json_strings())
def test_equal_conversations_get_equal_items(
    form: ModuleType, calls: list[Any], text: str
) -> None:
    """The items depend on the reply and the conversation alone."""
    assume(calls or text)
    document = spoken(calls, text, form)

    assert form.reply(document, ASKED) == form.reply(document, [*ASKED])


@given(CALLS, json_strings(), json_strings())
def test_a_chat_says_the_same_as_the_items(
    calls: list[Any], text: str, output: str
) -> None:
    """Translated to messages and read by the trace's own reader, the calls are equal."""
    assume(calls or text)
    items = [*ASKED, *chat.reply(spoken(calls, text, chat), ASKED).items]
    for one in [*items]:
        if one.get("type") == "function_call":
            answer = {"call_id": one["call_id"], "output": output}
            items.append(JsonObject({"type": "function_call_output", **answer}))
    messages = [*chat.messages(items)]

    assert calls_of_items(items) == read_trace(messages).calls
    assert text == "".join(
        at(one, "content") or "" for one in messages if one["role"] == "assistant"
    )


@given(CALLS, json_strings(), json_strings())
def test_a_turn_is_one_message(calls: list[Any], text: str, output: str) -> None:
    """Reasoning, words and calls between two answers of tools are one message."""
    thought = {"reasoning_content": "hm"}
    document: Any = spoken(calls, text, chat)
    message = JsonObject({**document["choices"][0]["message"], **thought})
    items = chat.reply(completion(message), ASKED).items
    messages = [*chat.messages([*ASKED, *items])]

    assert "reasoning" == items[0]["type"]
    assert ["user", "assistant"][: len(messages)] == [one["role"] for one in messages]
    assert len(messages) == 1 + bool(calls or text)
    assert "hm" not in str(messages) or "hm" in text + str(calls)


@pytest.mark.parametrize("name", REASONING_MEMBERS)
@given(CALLS, json_strings(), st.none() | json_strings())
def test_a5_reasoning_is_sent_back_where_it_is_wanted(
    name: str, calls: list[Any], text: str, thought: str | None
) -> None:
    """A5: each message of the assistant has the member, with what the model thought."""
    assume(calls or text)
    document: Any = spoken(calls, text, chat)
    message = {**document["choices"][0]["message"], name: thought}
    items = chat.reply(completion(message), ASKED).items
    back = [*chat.messages([*ASKED, *items], name)][1:]

    assert [thought or ""] == [one[name] for one in back]
    assert [] == [one for one in chat.messages([*ASKED, *items]) if name in one]


def test_a5_reasoning_of_the_responses_api_is_sent_back_too() -> None:
    """A5: summaries and contents are what the model thought, in this order."""
    parts = [{"type": "reasoning_text", "text": "b"}, {"type": "reasoning_text"}]
    item = {"type": "reasoning", "summary": [{"text": "a"}], "content": parts}
    said = {"type": "message", "role": "assistant", "content": "Done."}
    frozen: Any = freeze([item, said])
    (message,) = chat.messages(frozen, "reasoning")

    assert {"role": "assistant", "content": "Done.", "reasoning": "a\nb"} == message


def test_messages_of_other_kinds() -> None:
    """Instructions of a developer go to the system; what no chat has is left out."""
    items = [
        JsonObject({"role": "developer", "content": "Be kind."}),
        JsonObject({"type": "web_search_call", "id": "ws"}),
        JsonObject(
            {
                "type": "function_call_output",
                "call_id": "c",
                "output": [{"type": "input_text", "text": "one"}],
            }
        ),
    ]

    assert [
        {"role": "system", "content": "Be kind."},
        {"role": "tool", "tool_call_id": "c", "content": "one"},
    ] == [*chat.messages(items)]


def test_an_empty_message_stays_in_the_chat() -> None:
    """An assistant that has said nothing is not left out, so that roles alternate."""
    part = {"type": "output_text", "text": ""}
    item = {"type": "message", "role": "assistant", "content": [part]}

    assert [{"role": "assistant", "content": ""}] == [
        *chat.messages([JsonObject(item)])
    ]


@FORMS
def test_requests_have_what_was_given(form: ModuleType) -> None:
    """Sampling options that are not given are left to the endpoint, and so are tools."""
    full = Endpoint(
        url="http://model.test/v1",
        model="m",
        sampling=Sampling(temperature=0.0, top_p=0.5, max_output_tokens=9),
    )
    tools = [JsonObject({"type": "function", "name": "look", "strict": False})]
    bare, whole = form.request(ENDPOINT, ASKED, []), form.request(full, ASKED, tools)
    longest = "max_output_tokens" if form is responses else "max_tokens"

    assert {"model", "input" if form is responses else "messages"} == {*bare}
    assert (0.0, 0.5, 9) == (whole["temperature"], whole["top_p"], whole[longest])
    assert bare["model"] == "m"
    inner = tools[0] if form is responses else whole["tools"][0]["function"]
    assert "look" == inner["name"]
    assert len(whole["tools"]) == 1


def test_a_chat_offers_functions_only() -> None:
    """Tools of other types exist in the Responses API alone."""
    tools = [JsonObject({"type": "web_search"}), JsonObject({"name": "look"})]
    offered = chat.request(ENDPOINT, ASKED, tools)["tools"]

    assert [{"type": "function", "function": {"name": "look"}}] == offered


@FORMS
@given(VALUES)
def test_usage_is_never_wrong(form: ModuleType, value: JsonValue) -> None:
    """Whatever stands for the tokens, they are counted from 0."""
    names = (
        ("prompt_tokens", "completion_tokens")
        if form is chat
        else ("input_tokens", "output_tokens")
    )
    usage = {names[0]: value, names[1]: 7}
    document = spoken([], "x", form)
    counted = form.reply(JsonObject({**document, "usage": usage}), ASKED).usage
    alone = form.reply(JsonObject({**document, "usage": value}), ASKED).usage

    expected = value if type(value) is int and value > 0 else 0
    assert Usage(expected, 7) == counted
    assert isinstance(alone, Usage)


def test_usage_adds_up() -> None:
    """The usage of an episode is the sum of its turns."""
    assert Usage(4, 6) == Usage(1, 2) + Usage(3, 4)


def test_items_of_the_responses_api_are_kept() -> None:
    """Reasoning and unknown members stay as they came; other kinds are left out."""
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [1]}
    call = {
        "type": "function_call",
        "id": "fc_9",
        "call_id": "c",
        "name": "look",
        "arguments": {"a": 1},
        "status": "completed",
        "more": 2,
    }
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": "hello",
        "status": "completed",
    }
    items = responses.reply(
        response([reasoning, call, {"type": "web_search_call"}, message]), ASKED
    ).items
    part = {"type": "output_text", "text": "hello", "annotations": []}

    assert (
        reasoning,
        {**call, "arguments": '{"a": 1}'},
        {**message, "content": [part]},
    ) == items


def test_a_refusal_is_a_message() -> None:
    """A model that refuses has said so, and the episode is over."""
    items = chat.reply(
        completion({"role": "assistant", "content": None, "refusal": "No."}), ASKED
    ).items

    assert [{"type": "refusal", "refusal": "No."}] == items[0]["content"]


@FORMS
def test_no_arguments_are_an_empty_text(form: ModuleType) -> None:
    """A call without arguments has them all the same, so that it can be executed."""
    document = spoken([("c", "look", None)], "", form)

    assert "" == form.reply(document, ASKED).items[0]["arguments"]


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({}, "$.choices"),
        ({"choices": []}, "$.choices"),
        ({"choices": "x"}, "$.choices"),
        ({"choices": [1]}, "$.choices[0].message"),
        ({"choices": [{"message": None}]}, "$.choices[0].message"),
        (
            {"choices": [{"message": {"content": 5}}]},
            "$.choices[0].message.content",
        ),
        (
            {"choices": [{"message": {"tool_calls": {}}}]},
            "$.choices[0].message.tool_calls",
        ),
        (
            {"choices": [{"message": {"tool_calls": [{"function": {"name": ""}}]}}]},
            "$.choices[0].message.tool_calls[0]",
        ),
        (
            {"choices": [{"message": {"tool_calls": [1]}}]},
            "$.choices[0].message.tool_calls[0]",
        ),
    ],
)
def test_what_is_no_completion_is_refused(document: dict[str, Any], path: str) -> None:
    """The first thing that is wrong is named by its path."""
    with pytest.raises(SchemaError) as caught:
        chat.reply(freeze(document), ASKED)  # type: ignore[arg-type]

    assert path == caught.value.path


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({}, "$.output"),
        ({"output": {}}, "$.output"),
        ({"output": [], "status": "failed"}, "$.status"),
        ({"output": [], "status": "in_progress"}, "$.status"),
        ({"output": [1]}, "$.output[0]"),
        ({"output": [{"type": "function_call"}]}, "$.output[0].name"),
        ({"output": [{"type": "message"}]}, "$.output[0].content"),
        ({"output": [{"type": "message", "content": [1]}]}, "$.output[0].content"),
    ],
)
def test_what_is_no_response_is_refused(document: dict[str, Any], path: str) -> None:
    """The first thing that is wrong is named by its path."""
    with pytest.raises(SchemaError) as caught:
        responses.reply(freeze(document), ASKED)  # type: ignore[arg-type]

    assert path == caught.value.path


@FORMS
@given(VALUES)
def test_any_json_is_read_or_refused(form: ModuleType, value: JsonValue) -> None:
    """No reply leads to anything but items or a refusal."""
    where = "output" if form is responses else "choices"
    for document in (value, {where: value}, {where: [value]}):
        if isinstance(document, dict):
            with suppress(SchemaError):
                form.reply(freeze(document), ASKED)


def test_forms_belong_to_the_apis() -> None:
    """There is a form for each API that an endpoint may have."""
    assert {"responses", "chat"} == {*map(str, Api)}
