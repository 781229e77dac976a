"""What a policy model and its worker tell each other: closed objects, and a row from them."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from staging import Staging

from ipistate.capture import (
    CAPTURE_FAILED,
    COMMITTED,
    TEXT,
    TOKEN_IN,
    CaptureAdmission,
    CapturedCall,
    CommitCoords,
    CommittedRow,
    FailureRow,
    Lineage,
    admission_of,
    is_constrained,
    lineage_of,
    reply_items,
    request_items,
)
from ipistate.errors import SchemaError
from ipistate.kernel import JsonObject, freeze, structure, unstructure


HASH = "ab" * 32
ROOT: dict[str, Any] = {"schema_version": 1, "rollout_id": "r", "model_call_id": "c"}
CHILD: dict[str, Any] = {
    **ROOT,
    "mode": TOKEN_IN,
    "parent_call_id": "p",
    "prev_len": 2,
    "parent_chain_hash": HASH,
    "staging_chain": ["k"],
}
COORDS: dict[str, Any] = {
    "schema_version": 1,
    "disposition": COMMITTED,
    "rollout_id": "r",
    "model_call_id": "c",
    "staging_key": "k",
    "weight_version": 7,
    "prev_len": 2,
    "delta_len": 3,
    "cum_len": 5,
    "staging_digest": HASH,
    "chain_hash": HASH,
    "cumulative_hash": HASH,
}


def frozen(members: dict[str, Any], **changes: Any) -> JsonObject:
    """Return members with some changed."""
    found = freeze({**members, **changes})
    assert isinstance(found, JsonObject)
    return found


@pytest.mark.parametrize(
    "document",
    [
        frozen(ROOT),
        frozen(CHILD),
        frozen(CHILD, staging_chain=None, required_prefix_token_ids=[1, 2]),
    ],
    ids=["root", "child of staged tokens", "child of inline tokens"],
)
def test_admissions_that_are_right(document: JsonObject) -> None:
    """They are read, and written with the same meaning."""
    admission = structure(document, CaptureAdmission)

    assert admission == structure(unstructure(admission), CaptureAdmission)


BAD_ADMISSIONS: dict[str, tuple[JsonObject, str]] = {
    "a root with a parent": (frozen(ROOT, parent_call_id="p"), "invalid_admission"),
    "a root after tokens": (frozen(ROOT, prev_len=1), "invalid_admission"),
    "a root with a chain": (frozen(ROOT, staging_chain=[]), "invalid_admission"),
    "a root with a hash": (frozen(ROOT, parent_chain_hash=HASH), "invalid_admission"),
    "a child of nobody": (frozen(CHILD, parent_call_id=None), "invalid_admission"),
    "a child after nothing": (frozen(CHILD, prev_len=0), "invalid_admission"),
    "a child without a hash": (
        frozen(CHILD, parent_chain_hash=None),
        "invalid_admission",
    ),
    "a child without tokens": (frozen(CHILD, staging_chain=None), "invalid_admission"),
    "a child with tokens twice": (
        frozen(CHILD, required_prefix_token_ids=[1, 2]),
        "invalid_admission",
    ),
    "a child with too few tokens": (
        frozen(CHILD, staging_chain=None, required_prefix_token_ids=[1]),
        "invalid_admission",
    ),
    "another mode": (frozen(ROOT, mode="both"), "unknown_mode"),
    "another version": (frozen(ROOT, schema_version=2), "unknown_version"),
    "a hash that is none": (frozen(CHILD, parent_chain_hash="x"), "invalid_digest"),
    "an unknown member": (frozen(ROOT, colour="red"), "unknown_member"),
}


@pytest.mark.parametrize(
    ("document", "code"), BAD_ADMISSIONS.values(), ids=BAD_ADMISSIONS
)
def test_admissions_that_are_wrong(document: JsonObject, code: str) -> None:
    """Each is refused, with a stable code."""
    with pytest.raises(SchemaError) as caught:
        structure(document, CaptureAdmission)

    assert code == caught.value.code


FAILED = frozen(ROOT, disposition=CAPTURE_FAILED, failure_reason="full")
BAD_COORDS: dict[str, tuple[JsonObject, str]] = {
    "no staging key": (frozen(COORDS, staging_key=None), "invalid_coords"),
    "no weights": (frozen(COORDS, weight_version=None), "invalid_coords"),
    "no tokens": (frozen(COORDS, delta_len=0, cum_len=2), "invalid_coords"),
    "a sum that is none": (frozen(COORDS, cum_len=6), "invalid_coords"),
    "fewer than no tokens before": (
        frozen(COORDS, prev_len=-1, cum_len=2),
        "invalid_coords",
    ),
    "a failure all the same": (frozen(COORDS, failure_reason="x"), "invalid_coords"),
    "a failure with tokens": (
        frozen(dict(FAILED), delta_len=1),
        "invalid_coords",
    ),
    "a failure with a key": (frozen(dict(FAILED), staging_key="k"), "invalid_coords"),
    "another disposition": (frozen(COORDS, disposition="maybe"), "invalid_coords"),
    "a digest that is none": (frozen(COORDS, chain_hash="AB" * 32), "invalid_digest"),
}


@pytest.mark.parametrize(("document", "code"), BAD_COORDS.values(), ids=BAD_COORDS)
def test_coordinates_that_are_wrong(document: JsonObject, code: str) -> None:
    """Each is refused, with a stable code."""
    with pytest.raises(SchemaError) as caught:
        structure(document, CommitCoords)

    assert code == caught.value.code


def said(text: str, role: str = "user") -> JsonObject:
    """Return a message."""
    return JsonObject({"role": role, "content": text})


def call(name: str, items: tuple[JsonObject, ...], lineage: Lineage) -> CapturedCall:
    """Return a call on its way."""
    return CapturedCall(
        admission=admission_of(lineage, "r", name),
        items=items,
        lineage=lineage,
        admitted_at=1.0,
    )


def test_a_child_follows_from_the_rows() -> None:
    """What a worker has staged of one turn is what the next one begins with."""
    staging, items = Staging(), (said("Hello"),)
    first = call("c1", items, Lineage())
    answer = said("Hi", "assistant")
    reply = JsonObject({"output": freeze([answer])})
    coords = staging.staged(first.admission, items, reply)
    row = first.row(coords, (answer,), "resp-1")
    following = (*items, answer, said("Go on"))
    lineage = lineage_of(following, [row])

    assert isinstance(row, CommittedRow)
    assert isinstance(lineage, Lineage)
    admission = admission_of(lineage, "r", "c2")
    assert (TOKEN_IN, "c1", row.cum_len, ("r/c1",), row.chain_hash) == (
        admission.mode,
        admission.parent_call_id,
        admission.prev_len,
        admission.staging_chain,
        admission.parent_chain_hash,
    )
    second = call("c2", following, lineage)
    coords = staging.staged(
        admission, following, JsonObject({"output": freeze([said("No", "assistant")])})
    )
    after = second.row(coords, (said("No", "assistant"),), None)
    assert isinstance(after, CommittedRow)
    assert ("r/c1", "r/c2") == after.staging_chain


LIES: dict[str, dict[str, Any]] = {
    "another rollout": {"rollout_id": "s"},
    "another call": {"model_call_id": "d"},
    "another prefix": {"prev_len": 1, "cum_len": 4},
}


@pytest.mark.parametrize("changes", LIES.values(), ids=LIES)
def test_a_worker_that_lies(changes: dict[str, Any]) -> None:
    """Its coordinates become a failure, never a row."""
    right = frozen(COORDS, prev_len=0, cum_len=3)
    coords = structure(frozen(dict(right), **changes), CommitCoords)
    row = call("c", (), Lineage()).row(coords, (), None)

    assert isinstance(row, FailureRow)


def test_a_capture_that_failed() -> None:
    """The worker's reason stands in the row."""
    row = call("c", (), Lineage()).row(structure(FAILED, CommitCoords), (), None)
    silent = attrs.evolve(structure(FAILED, CommitCoords), failure_reason=None)

    assert FailureRow(model_call_id="c", failure_reason="full") == row
    assert isinstance(call("c", (), Lineage()).row(silent, (), None), FailureRow)


def test_items_of_both_forms() -> None:
    """A request has messages or input, a reply output or a choice's message."""
    one = said("Hello")
    chat = frozen({}, choices=[{"message": {"role": "assistant", "content": "Hi"}}])

    assert (one,) == request_items(frozen({}, messages=[one]))
    assert (one,) == request_items(frozen({}, input=[one]))
    assert (one,) == request_items(frozen({}, input="Hello"))
    assert (one,) == reply_items(frozen({}, output=[one]))
    assert (said("Hi", "assistant"),) == reply_items(chat)
    assert () == reply_items(frozen({}, choices=[]))
    assert () == reply_items(frozen({}, choices=[{}]))
    with pytest.raises(SchemaError, match="wrong_type"):
        request_items(frozen({}))


CONSTRAINED: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing": ({}, False),
    "auto": ({"tool_choice": "auto"}, False),
    "none": ({"tool_choice": "none", "response_format": {"type": "text"}}, False),
    "null": ({"tool_choice": None, "response_format": None}, False),
    "required": ({"tool_choice": "required"}, True),
    "a tool": ({"tool_choice": {"type": "function"}}, True),
    "a schema": ({"response_format": {"type": "json_schema"}}, True),
    "a form as text": ({"response_format": "json"}, True),
    "a grammar": ({"guided_grammar": "x"}, True),
    "no grammar": ({"guided_grammar": None}, False),
    "outputs": ({"structured_outputs": {}}, True),
}


@pytest.mark.parametrize(("body", "expected"), CONSTRAINED.values(), ids=CONSTRAINED)
def test_what_is_constrained(body: dict[str, Any], expected: bool) -> None:
    """A form that the reply must have; TEXT is none."""
    assert TEXT == "text"
    assert expected is is_constrained(frozen(body))
