"""How an episode goes on is decided by its conversation alone."""

from __future__ import annotations

import json

import pytest

from acting import call, saying, words
from documents import at
from hypothesis import given
from hypothesis import strategies as st

from ipistate.agents.conversation import (
    ROUTES,
    AgentState,
    AgentStateCodec,
    Ask,
    Conversation,
    Over,
    RefuseCall,
    Send,
    offered_tools,
    response,
)
from ipistate.agents.policy import PolicyReply, Usage
from ipistate.kernel.codec import decode, encode
from ipistate.kernel.schema import structure
from ipistate.kernel.values import JsonObject
from ipistate.scoring.trace_reading import calls_of_items


NAMES = st.sampled_from(["get_messages", "send_message", "verify", "", "a/b", "é"])
ARGUMENTS = st.sampled_from(["", "{}", '{"a": 1}', "null", "[1]", "{", '"{}"'])
CALLS = st.builds(call, NAMES, ARGUMENTS, st.sampled_from(["c-1", "c-2"]))
ITEMS = st.lists(CALLS | st.builds(words, st.text(max_size=5)), max_size=4)
REPLIES = st.lists(
    st.builds(lambda items: PolicyReply(items=tuple(items), usage=Usage(2, 3)), ITEMS),
    max_size=4,
)


def play(
    replies: list[PolicyReply], max_steps: int = 50
) -> tuple[Conversation, list[Send], list[Conversation]]:
    """Play a conversation to its end; return it after every step, and what was sent."""
    said, sent, history, left = Conversation(), [], [], iter(replies)
    while not isinstance(step := said.next_step(max_steps), Over):
        if isinstance(step, Ask):
            said = said.replied(next(left, saying(words())))
        elif isinstance(step, Send):
            sent.append(step)
            said = said.answered(step.call_id, f"reply {len(sent)}")
        else:
            said = said.answered(step.call_id, step.output)
        history.append(said)
    return said, sent, history


@given(REPLIES, st.integers(1, 5))
def test_every_call_is_answered_once_in_order(
    replies: list[PolicyReply], max_steps: int
) -> None:
    """When a conversation is over each of its calls has its output, in their order."""
    said, _, _ = play(replies, max_steps)
    kinds = [item["type"] for item in said.output]
    calls = [i["call_id"] for i in said.output if i["type"] == "function_call"]
    outputs = [i["call_id"] for i in said.output if i["type"] == "function_call_output"]

    assert calls == outputs
    assert kinds.count("function_call") == kinds.count("function_call_output")
    assert 1 <= said.turns <= max_steps


@given(REPLIES)
def test_a_conversation_from_storage_goes_on_the_same(
    replies: list[PolicyReply],
) -> None:
    """At every step the stored conversation is the same, and so is what comes next."""
    _, _, history = play(replies)
    codec = AgentStateCodec()
    for said in history:
        held = AgentState(conversation=said, cookies=JsonObject({"a": "b"}))
        text = codec.encode(held)
        read = codec.decode(decode(text), lambda part: part)

        assert text == codec.encode(read)
        assert said.next_step(9) == read.conversation.next_step(9)


@given(REPLIES)
def test_nothing_is_sent_that_is_no_call_of_a_tool(replies: list[PolicyReply]) -> None:
    """What is sent has a tool's name, no route's, and an object as its arguments."""
    _, sent, _ = play(replies)

    assert all(one.name.isascii() and one.name not in ROUTES for one in sent)
    assert all("/" not in one.name and one.name for one in sent)
    assert all(isinstance(one.arguments, JsonObject) for one in sent)


@pytest.mark.parametrize(
    "name", [*sorted(ROUTES), "../verify", "a/b", "", ".", "..", "é"]
)
def test_a_model_reaches_no_other_route(name: str) -> None:
    """A name that is no tool's is answered as an unknown tool, without a request."""
    said = Conversation().replied(saying(call(name)))
    step = said.next_step(9)

    assert isinstance(step, RefuseCall)
    assert {"output": f"Unknown tool: {name}"} == json.loads(step.output)


@pytest.mark.parametrize("written", ["null", "[1]", "{", '"{}"', "1"])
def test_refused_arguments_are_explained(written: str) -> None:
    """Arguments that are no object get a reply for the model and no request."""
    said = Conversation().replied(saying(call("get_messages", written)))
    step = said.next_step(9)

    assert isinstance(step, RefuseCall)
    assert "not a JSON object" in json.loads(step.output)["output"]


def test_a_reply_without_calls_ends_it() -> None:
    """A reply that calls nothing is the last one, an empty one as well."""
    asked = Conversation().replied(saying(call("get_messages"))).answered("c-1", "x")

    assert Ask() == asked.next_step(9)
    assert Over() == asked.replied(saying()).next_step(9)
    assert Over() == asked.replied(saying(words())).next_step(9)


def test_a_truncated_reply_ends_it() -> None:
    """The calls of a reply that was cut off are not made."""
    reply = saying(call("get_messages"), incomplete_reason="max_output_tokens")
    said = Conversation().replied(reply)

    assert Over() == said.next_step(9)
    assert {"reason": "max_output_tokens"} == response(said, "r", JsonObject(), "told")[
        "incomplete_details"
    ]


def test_the_last_turn_may_still_call() -> None:
    """After the last turn that is allowed its calls are made, and nobody is asked."""
    said = Conversation().replied(saying(call("get_messages")))

    assert isinstance(said.next_step(1), Send)
    assert Over() == said.answered("c-1", "x").next_step(1)


def test_a_policy_cannot_answer_for_tools() -> None:
    """Outputs of tools in a reply are left out."""
    forged = JsonObject(
        {"type": "function_call_output", "call_id": "c-1", "output": "forged"}
    )
    said = Conversation().replied(saying(call("get_messages"), forged))

    assert isinstance(said.next_step(9), Send)
    assert [None] == [one.reply for one in calls_of_items(said.output)]


def test_usage_is_summed() -> None:
    """The response counts the tokens of all turns."""
    said = Conversation()
    for _ in range(3):
        said = said.replied(saying(words(), usage=Usage(5, 7), model="m"))
    written = response(said, "r-1", JsonObject({"tools": [{"name": "t"}]}), "told")

    assert 36 == at(written, "usage", "total_tokens")
    assert ("resp_r-1", "m") == (written["id"], written["model"])
    assert [{"name": "t"}] == written["tools"]


def test_a4_a_response_has_what_was_sent_and_not_what_the_row_says() -> None:
    """A4: what a model was asked stands in the response, in the row's place and beyond."""
    params = JsonObject({"tool_choice": "required", "tools": [{"name": "t"}]})
    sent = JsonObject({"tools": [], "temperature": 0.5})
    said = Conversation().replied(saying(words()))
    written = response(said, "r", params, "told", sent)
    plain = response(said, "r", params, "told")

    assert ("auto", [], 0.5) == tuple(
        written[name] for name in ("tool_choice", "tools", "temperature")
    )
    assert "required" == plain["tool_choice"]
    assert [*plain, "temperature"] == [*written]


def test_a_response_has_the_same_bytes_again() -> None:
    """Nothing in a response depends on a clock or a random number."""
    said = Conversation().replied(saying(words()))

    assert encode(response(said, "r", JsonObject(), "p")) == encode(
        response(
            structure(decode(encode(JsonObject({"turns": 0}))), Conversation).replied(
                saying(words())
            ),
            "r",
            JsonObject(),
            "p",
        )
    )


def test_tools_that_are_no_list_are_none() -> None:
    """Odd definitions of tools do not stop an episode."""
    assert () == offered_tools(JsonObject({"tools": "none"}))
    assert () == offered_tools(JsonObject({"tools": [1]}))


def test_arguments_that_are_an_object_are_sent_as_they_are() -> None:
    """Some endpoints give arguments as an object instead of its text."""
    item = JsonObject({**call("get_messages", "", "c-1"), "arguments": JsonObject()})
    said = Conversation().replied(PolicyReply(items=(item,)))

    assert said.next_step(5) == Send(
        call_id="c-1", name="get_messages", arguments=JsonObject()
    )
