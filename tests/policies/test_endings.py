"""How replies end: each word of both APIs has one meaning, and no other word has any."""

from __future__ import annotations

from typing import Any

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate.agents import FILTERED, LENGTH
from ipistate.errors import SchemaError
from ipistate.kernel import JsonObject, JsonValue, freeze
from ipistate.policies import chat, responses
from ipistate.policies.endings import (
    DETAILS,
    ENDINGS,
    FINISH_REASON,
    STATUS,
    ReplyEnding,
    ending,
)
from ipistate.testing import json_values


CALL = {"function": {"name": "look", "arguments": "{}"}}


def said(reason: JsonValue, **message: Any) -> JsonObject:
    """Return a completion that ends like this."""
    choice = {"message": {"content": "x", **message}, "finish_reason": reason}
    return JsonObject({"choices": freeze([choice])})


def responded(**members: Any) -> JsonObject:
    """Return a response that ends like this."""
    output = [{"type": "message", "role": "assistant", "content": "x"}]
    return JsonObject({"output": freeze(output), **members})


@pytest.mark.parametrize(
    ("reason", "mapped"),
    [
        ("stop", None),
        ("eos_token", None),
        ("stop_sequence", None),
        ("end_turn", None),
        ("length", LENGTH),
        ("content_filter", FILTERED),
    ],
)
def test_finish_reasons(reason: str, mapped: str | None) -> None:
    """A completion that was cut short says why in the words of the Responses API."""
    assert mapped == chat.reply(said(reason), []).incomplete_reason


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "function_call"])
@pytest.mark.parametrize(
    "members", [{"tool_calls": [CALL]}, {"function_call": CALL["function"]}]
)
def test_calls_are_read_however_the_reply_ends(
    reason: str, members: dict[str, Any]
) -> None:
    """A call counts in the present and in the older form, whatever word ends the reply."""
    items = chat.reply(said(reason, **members), []).items

    assert ["message", "function_call"] == [one["type"] for one in items]
    assert ("look", "{}") == (items[1]["name"], items[1]["arguments"])


@pytest.mark.parametrize(
    ("members", "mapped"),
    [
        ({}, None),
        ({"incomplete_details": None}, None),
        ({"incomplete_details": {"reason": None}}, None),
        ({"status": None}, None),
        ({"status": "completed"}, None),
        ({"status": "incomplete"}, LENGTH),
        ({"incomplete_details": {"reason": "content_filter"}}, FILTERED),
        ({"incomplete_details": {"reason": "max_output_tokens"}}, LENGTH),
    ],
)
def test_incomplete_details(members: dict[str, Any], mapped: str | None) -> None:
    """The reason of an incomplete response is kept; one that has none is too long."""
    document = responded(**{name: freeze(part) for name, part in members.items()})

    assert mapped == responses.reply(document, []).incomplete_reason


@pytest.mark.parametrize("reason", [LENGTH, FILTERED])
def test_what_is_cut_short_may_be_empty(reason: str) -> None:
    """A limit or a filter that leaves nothing is an end all the same."""
    details = JsonObject({"reason": reason})
    response = JsonObject({"output": freeze([]), "incomplete_details": details})
    word = {LENGTH: "length", FILTERED: "content_filter"}[reason]

    assert reason == responses.reply(response, []).incomplete_reason
    assert reason == chat.reply(said(word, content=None), []).incomplete_reason


@pytest.mark.parametrize("path", [*ENDINGS])
@given(st.one_of(st.text(), json_values()))
def test_a2_other_words_are_no_end(path: str, word: JsonValue) -> None:
    """A2: whatever is not in the table is refused, of any type; so is a reply broken off."""
    known = ENDINGS[path].get(word) if isinstance(word, str | None) else None
    if known is None:
        with pytest.raises(SchemaError) as caught:
            ending(path, word)
        assert (path, "wrong_type") == (caught.value.path, caught.value.code)


def test_a2_every_word_of_the_table_has_its_outcome() -> None:
    """A2: the table as a whole, so that no outcome changes by accident."""
    assert {
        (path, word): one.name
        for path, words in ENDINGS.items()
        for word, one in words.items()
    } == {
        (FINISH_REASON, "stop"): "WHOLE",
        (FINISH_REASON, "eos_token"): "WHOLE",
        (FINISH_REASON, "stop_sequence"): "WHOLE",
        (FINISH_REASON, "end_turn"): "WHOLE",
        (FINISH_REASON, "tool_calls"): "CALLING",
        (FINISH_REASON, "function_call"): "CALLING",
        (FINISH_REASON, "length"): "CUT_OFF",
        (FINISH_REASON, "content_filter"): "BLOCKED",
        (FINISH_REASON, "abort"): "BROKEN",
        (FINISH_REASON, "error"): "BROKEN",
        (STATUS, "completed"): "WHOLE",
        (STATUS, None): "WHOLE",
        (STATUS, "incomplete"): "CUT_OFF",
        (STATUS, "failed"): "BROKEN",
        (STATUS, "cancelled"): "BROKEN",
        (DETAILS, "max_output_tokens"): "CUT_OFF",
        (DETAILS, "content_filter"): "BLOCKED",
    }


@pytest.mark.parametrize(
    ("path", "word"),
    [
        (path, word)
        for path, words in ENDINGS.items()
        for word, one in words.items()
        if one is ReplyEnding.BROKEN
    ],
)
def test_a2_what_is_broken_off_has_a_code_of_its_own(path: str, word: str) -> None:
    """A2: the endpoint's own failures are told apart from replies that make no sense."""
    with pytest.raises(SchemaError) as caught:
        ending(path, word)

    assert ("broken_off", path) == (caught.value.code, caught.value.path)
