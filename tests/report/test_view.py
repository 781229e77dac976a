"""The viewer's data: every recorded form, in the order in which it happened."""

from __future__ import annotations

import json

from collections.abc import Callable
from typing import Any

import pytest

from ipistate.report import view as module
from ipistate.report.rollout import read
from ipistate.report.texts import Texts
from ipistate.report.view import view
from ipistate.scoring import read_rollout


CALL = {"name": "get_patient_record", "arguments": '{"patient_id": "P-1"}'}
WORLD = {"patients": {"P-1": {"patient_id": "P-1", "name": "Ada"}}}


def seen(row: dict[str, Any]) -> tuple[dict[str, Any], Callable[..., str]]:
    """Return the view of a row and a function that gives its texts."""
    texts = Texts()
    found = view(read(1, read_rollout(json.dumps(row).encode())), texts)
    return found, lambda number: "".join(map(str, texts.kept[number]))


def in_short(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Say what happened in a row, one word and one text for each item."""
    found, text = seen(row)
    return [
        (one["kind"], text(one["reply"] if one["kind"] == "call" else one["text"]))
        for one in (*found["input"], *found["items"])
    ]


def items() -> list[dict[str, Any]]:
    """Return a rollout as Responses API items."""
    return [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Look."}]},
        {"type": "function_call", "call_id": "a", **CALL},
        {
            "type": "function_call",
            "call_id": "b",
            "name": "get_messages",
            "arguments": "",
        },
        {"type": "function_call_output", "call_id": "b", "output": "second"},
        {"type": "function_call_output", "call_id": "a", "output": "first"},
        {"type": "message", "role": "assistant", "content": [{"text": "Done."}]},
    ]


def test_items_in_their_order() -> None:
    """Items stay in order, and each call has its own reply."""
    row = {
        "responses_create_params": {"input": [{"role": "user", "content": "Hi"}]},
        "response": {"output": items()},
    }
    expected = [
        *(("message", "Hi"), ("reasoning", "Look."), ("call", "first")),
        *(("call", "second"), ("message", "Done.")),
    ]

    assert expected == in_short(row)


def test_conversations_in_their_order() -> None:
    """Chat Completions messages read the same, also with calls of the older form."""
    messages = [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": "Look.",
            "tool_calls": [{"id": "a", "function": CALL}, {"id": "x", "function": {}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "first"},
        {"role": "assistant", "content": None, "function_call": CALL},
        {"role": "function", "name": CALL["name"], "content": "second"},
        {"role": "assistant", "content": "Done."},
    ]
    expected = [
        *(("message", "Hi"), ("message", "Look."), ("call", "first")),
        *(("call", "second"), ("message", "Done.")),
    ]

    assert expected == in_short({"messages": messages})


def test_first_choice_is_read() -> None:
    """Of several choices the first one is what happened."""
    calls = [{"id": "a", "function": CALL}]
    message = {"role": "assistant", "content": "Look.", "tool_calls": calls}
    found, _ = seen({"response": {"choices": [{"message": message}, {}]}})

    assert ["message", "call"] == [one["kind"] for one in found["items"]]
    assert None is found["items"][1]["reply"]


@pytest.mark.parametrize(
    ("written", "reply", "state"),
    [
        ('{"patient_id": "P-1"}', '{"patient_id": "P-1", "name": "Ada"}', "executed"),
        ('{"patient_id": "P-1"}', '{"output": "Bob"}', "diverged"),
        ("[1, 2", "Error: invalid arguments", "refused"),
    ],
)
def test_states_of_calls(written: str, reply: str, state: str) -> None:
    """A call was executed, refused, or gives another reply than was recorded."""
    output = [
        {"type": "function_call", "call_id": "a", **CALL, "arguments": written},
        {"type": "function_call_output", "call_id": "a", "output": reply},
        {"type": "function_call", "call_id": "b", **CALL},
    ]
    found, _ = seen({"environment": WORLD, "response": {"output": output}})
    after = "not_executed" if state == "diverged" else "executed"

    assert [state, after] == [one["state"] for one in found["items"]]


def test_without_a_world_nothing_is_executed() -> None:
    """Without environment no call has a diff."""
    found, _ = seen({"response": {"output": items()}})
    calls = [one for one in found["items"] if one["kind"] == "call"]

    assert {"not_executed"} == {one["state"] for one in calls}
    assert not any("diff" in one for one in calls)


def test_many_items_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollout with too many items keeps the first ones and counts the others."""
    monkeypatch.setattr(module, "MOST_ITEMS", 3)
    found, _ = seen({"response": {"output": items()}})

    assert (3, 1) == (len(found["items"]), found["left_out"])


def test_long_values_are_shown_where_they_differ() -> None:
    """Of two long texts the page has the place in which they differ."""
    notes = "n" * 50_000
    world = {"patients": {"P-1": {"patient_id": "P-1", "chart_notes": notes}}}
    arguments = json.dumps({"patient_id": "P-1", "notes": "Seen."})
    call = {"type": "function_call", "name": "update_patient_chart"}
    row = {
        "environment": world,
        "response": {"output": [{**call, "arguments": arguments}]},
    }
    found, text = seen(row)
    (change,) = found["items"][0]["diff"]

    assert "Seen." in text(change["new"])
    assert len(text(change["new"])) < 5_000
    assert text(change["path"]) == '$.patients["P-1"].chart_notes'


def test_a8_a_loss_is_shown() -> None:
    """A8: a rollout with a call that cannot be read says where it stands."""
    lost = {"role": "tool", "tool_call_id": "?", "content": "Done."}
    found, _ = seen({"messages": [lost]})

    assert found["about"]["unread"].startswith("$.messages[0]: a reply to a call")
    assert [] == found["items"]


def test_a9_a_call_that_was_cut_off_is_not_executed() -> None:
    """A9: it has its arguments, no change, and the reason."""
    details = {"reason": "content_filter"}
    output = [{"type": "function_call", "call_id": "a", **CALL}]
    response = {"output": output, "incomplete_details": details}
    found, text = seen({"environment": WORLD, "response": response})
    (call,) = found["items"]

    assert ("refused", None) == (call["state"], call["reply"])
    assert "[cut_off]" in text(call["why"])
