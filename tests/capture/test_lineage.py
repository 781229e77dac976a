"""Which call a request continues: fingerprints, rows, admission, manifest."""

from __future__ import annotations

import json

from typing import Any

import attrs
import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate import DecodeError, JsonObject, SchemaError
from ipistate.capture import (
    CommittedRow,
    FailureRow,
    LedgerRow,
    Lineage,
    Unresolved,
    assistant_fingerprint,
    canonical_arguments,
    capture_manifest,
    conversation_digest,
    has_assistant_turn,
    lineage_of,
    read_row,
    row_line,
    row_of,
    staging_keys,
    stamped,
)


def item(**members: Any) -> JsonObject:
    """Make an item."""
    return JsonObject(members)


USER = item(role="user", content="Hello.")
SYSTEM = item(role="system", content="Be brief.")
SAID = item(role="assistant", content=[{"type": "output_text", "text": "Hi."}])
CALL = item(type="function_call", call_id="c", name="get", arguments='{"b": 1, "a": 2}')
OUTPUT = item(type="function_call_output", call_id="c", output="{}")
THOUGHT = item(type="reasoning", summary=[])


def row(call: str = "call-1", **members: Any) -> CommittedRow:
    """Make the row of a call whose reply was ``SAID`` after ``USER``."""
    whole: dict[str, Any] = {
        "model_call_id": call,
        "fingerprint": assistant_fingerprint([USER, SAID]),
        "context_len": 2,
        "context_digest": conversation_digest([USER, SAID]),
        "digest": "d" * 64,
        "staging_key": f"key/{call}",
        "staging_chain": (f"key/{call}",),
        "cum_len": 12,
        "chain_hash": "c" * 64,
        "cumulative_hash": "d" * 64,
        "response_id": f"resp-{call}",
    }
    return CommittedRow(**{**whole, **members})


def test_what_a_fingerprint_sees() -> None:
    """What the model has said, however it is written; nothing else."""
    plain = item(role="assistant", content="Hi.")
    sorted_call = item(
        type="function_call", call_id="c", name="get", arguments='{"a":2,"b":1}'
    )
    same = assistant_fingerprint([USER, SAID, CALL])

    assert same == assistant_fingerprint([plain, THOUGHT, sorted_call, OUTPUT])
    assert same != assistant_fingerprint([CALL, SAID])
    assert "" == assistant_fingerprint([USER, OUTPUT, THOUGHT])
    assert not has_assistant_turn([USER, OUTPUT])


def test_what_a_conversation_digest_sees() -> None:
    """Roles, texts, calls and outputs; of instructions only that they are there."""
    base = conversation_digest([SYSTEM, USER, CALL, OUTPUT])
    other_system = item(role="system", content="Be long.")
    other_output = item(type="function_call_output", call_id="c", output="[]")

    assert base == conversation_digest([other_system, USER, THOUGHT, CALL, OUTPUT])
    for changed in (
        [USER, CALL, OUTPUT],
        [SYSTEM, USER, CALL, other_output],
        [SYSTEM, item(role="user", content="Hello!"), CALL, OUTPUT],
    ):
        assert base != conversation_digest(changed)


@given(st.text(), st.text())
def test_texts_do_not_run_together(left: str, right: str) -> None:
    """Two messages are not one, wherever the cut is."""
    parts = [item(role="user", content=left), item(role="user", content=right)]

    assert conversation_digest(parts) != conversation_digest(
        [item(role="user", content=left + right)]
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('{"b":[1, 2],"a":null}', '{"a":null,"b":[1,2]}'),
        (" not json ", "not json"),
        (JsonObject({"b": 1, "a": 2}), '{"a":2,"b":1}'),
    ],
)
def test_canonical_arguments(written: Any, expected: str) -> None:
    """Sorted and compact; what does not parse is only stripped."""
    assert expected == canonical_arguments(written)


def test_calls_in_the_form_of_chats() -> None:
    """They are what they are in items, and two of them are not the same."""
    function = {"name": "get", "arguments": '{"b": 1, "a": 2}'}
    calls: list[Any] = [{"id": "c", "type": "function", "function": function}, 3]
    chat = item(role="assistant", content=None, tool_calls=calls)
    other = item(role="assistant", tool_calls=[{"id": "d", "function": function}])

    assert assistant_fingerprint([CALL]) == assistant_fingerprint([chat])
    assert assistant_fingerprint([chat]) != assistant_fingerprint([other])


def test_a_time_that_is_none() -> None:
    """No line could be read that has it."""
    with pytest.raises(SchemaError) as caught:
        row(admitted_at=float("nan"))

    assert "not_finite" == caught.value.code


def test_parts_of_any_kind() -> None:
    """What is no text counts as it is written."""
    image = item(role="user", content=[{"type": "input_image", "url": "x"}, 7])
    other = item(role="user", content=[{"type": "input_image", "url": "y"}, 7])
    nothing = item(role="user", content=None)

    digests = {conversation_digest([one]) for one in (image, other, nothing)}
    assert 3 == len(digests)
    assert conversation_digest([item(type="other", content="x")]) not in digests


# Admission


def test_a_first_request_is_a_root() -> None:
    """Also beside calls of others, and a continued one of a ledger without rows."""
    assert Lineage() == lineage_of([SYSTEM, USER], [row()])
    assert Lineage() == lineage_of([USER, SAID], [])
    assert (0, ()) == (Lineage().prev_len, Lineage().staging_chain)


def test_a_request_that_repeats_a_reply_is_its_child() -> None:
    """It begins with all tokens of that call."""
    failure = FailureRow(model_call_id="call-0", failure_reason="lost")
    found = lineage_of([USER, SAID, USER], [failure, row()])

    assert Lineage(mode="token_in", parent=row()) == found
    assert isinstance(found, Lineage)
    assert (12, ("key/call-1",)) == (found.prev_len, found.staging_chain)


@pytest.mark.parametrize(
    ("items", "rows"),
    [
        ([USER, CALL], [row()]),
        ([USER, SAID], [row(), row("call-2")]),
        ([item(role="user", content="Other."), SAID], [row()]),
        ([USER, SAID], [row(chain_hash=None)]),
        ([USER, SAID], [row(cum_len=None)]),
        ([USER, SAID], [row(cum_len=0)]),
        ([USER, SAID], [row(staging_chain=())]),
        ([USER, item(role="assistant", content=None)], [row(fingerprint="")]),
        ([USER, SAID], [FailureRow(model_call_id="call-1", failure_reason="lost")]),
    ],
)
def test_what_cannot_be_resolved_is_no_root(
    items: list[JsonObject], rows: list[LedgerRow]
) -> None:
    """Unknown, ambiguous, another context, not staged, failed."""
    found = lineage_of(items, rows)

    assert isinstance(found, Unresolved)
    assert found.reason


# Rows and manifest


def test_a_row_is_a_sorted_line() -> None:
    """What is unknown is left out, and reading gives the same row."""
    line = row_line(row())

    assert line == row_line(attrs.evolve(row()))
    assert b'{"chain_hash":"cccc' == line[:19]
    assert b"parent_call_id" not in line
    assert row() == read_row(line)
    failure = FailureRow(model_call_id="c", failure_reason="é")
    assert failure == read_row(row_line(failure))


@pytest.mark.parametrize(
    "tree",
    [
        [],
        {},
        {"model_call_id": "c", "failure_reason": "x", "more": 1},
        {"model_call_id": "c", "failure_reason": 3},
        {"model_call_id": "c", "fingerprint": "f", "context_len": "2"},
        {"more": 1, **json.loads(row_line(row()))},
        {**json.loads(row_line(row())), "cum_len": -1},
    ],
)
def test_what_is_no_row(tree: Any) -> None:
    """Rows are closed, and nothing is coerced."""
    with pytest.raises(SchemaError):
        row_of(tree)


def test_a_line_that_is_no_json() -> None:
    """A damaged line is told apart from a wrong one."""
    with pytest.raises(DecodeError):
        read_row(b"{")


def test_a_restored_row_names_who_has_staged_it() -> None:
    """The first attempt stays; rows without tokens are not stamped."""
    once = stamped(row(), "r")
    failure = FailureRow(model_call_id="c", failure_reason="x")
    bare = row(staging_key=None)

    assert "r" == once.capture_key if isinstance(once, CommittedRow) else False
    assert once == stamped(once, "r-a1")
    assert (failure, bare) == (stamped(failure, "r"), stamped(bare, "r"))


def test_the_manifest_hides_no_gap() -> None:
    """Failures and rows without custody are failures; unstaged rows are left out."""
    failure = FailureRow(model_call_id="f", failure_reason="lost")
    broken = row("b", response_id=None)
    manifest = capture_manifest(
        "r-a1", [row(), failure, broken, row("u", staging_key=None)]
    )
    plain: Any = manifest

    assert ("r-a1", 1) == (plain["rollout_id"], plain["schema_version"])
    assert ["call-1"] == [one["model_call_id"] for one in plain["records"]]
    assert [
        {"model_call_id": "f", "reason": "lost"},
        {"model_call_id": "b", "reason": "the row lacks response_id"},
    ] == plain["failures"]
    assert ("key/b", "key/call-1") == staging_keys([row(), broken, row(), failure])
