"""Cuts of generations: inventories, receipts, and calls that go on after a cut."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate.capture import (
    ActiveCall,
    CaptureAdmission,
    CutAcknowledgement,
    CutInventory,
    CutReceipt,
    Generation,
    checked_receipt,
    continued,
)
from ipistate.errors import SchemaError
from ipistate.kernel import JsonObject, freeze, structure, unstructure


HASH = "ab" * 32
CALL = ActiveCall(
    ticket_id="0d1e",
    rollout_id="ipi-7",
    attempt=0,
    model_call_id="call-3",
    admitted_at=1790000000.5,
)
OTHER = attrs.evolve(CALL, ticket_id="1", model_call_id="call-4", attempt=2)
INVENTORY = CutInventory.of("step-120", "policy_model", [OTHER, CALL])


def generation(**changes: Any) -> Generation:
    """Return a generation on its way."""
    admission = CaptureAdmission(rollout_id="ipi-7", model_call_id="call-3")
    made: dict[str, Any] = {
        "admission": admission,
        "prompt": (1, 2, 3),
        "generated": (4, 5),
        "logprobs": (-0.5, -1.0),
        "output_limit": 9,
        "weight_version": 3,
        **changes,
    }
    return Generation(**made)


def acknowledged() -> CutAcknowledgement:
    """Return what a worker says of the first call."""
    return CutAcknowledgement.of(CALL, generation().cut(), "b1")


def receipt(**changes: Any) -> CutReceipt:
    """Return the receipt of the inventory."""
    made: dict[str, Any] = {
        "checkpoint_id": "step-120",
        "cut_id": "cut-1",
        "inventory_digest": INVENTORY.inventory_digest,
        "inventory": INVENTORY,
        "backend_snapshot_id": "w",
        "prefixes": (acknowledged(), CutAcknowledgement.failed(OTHER)),
        **changes,
    }
    return CutReceipt(**made)


def test_the_digest_of_an_inventory() -> None:
    """It is that of the specification's example."""
    inventory = CutInventory.of("step-120", "policy_model", [CALL])

    assert (
        "96af59d04a08eaeb985a2e95fb6332c0717759b04c4b5d48be6acb5bfb39ed5f"
        == inventory.inventory_digest
    )
    assert inventory == structure(unstructure(inventory), CutInventory)


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint_id": "another"},
        {"inventory_digest": HASH},
        {"active_prefixes": INVENTORY.active_prefixes[::-1]},
        {"active_prefixes": (CALL, CALL)},
    ],
)
def test_an_inventory_that_is_wrong(changes: dict[str, Any]) -> None:
    """Another digest, another order, or a call twice is refused."""
    with pytest.raises(SchemaError, match="invalid_inventory"):
        attrs.evolve(INVENTORY, **changes)


def test_a_receipt_that_is_right() -> None:
    """Its acknowledgements come back, and say how a call goes on."""
    cut, failed = checked_receipt(
        INVENTORY, structure(unstructure(receipt()), CutReceipt)
    )

    assert generation().cut() == cut.continuation
    assert failed.continuation is None
    later = CutAcknowledgement.of(OTHER, generation().cut("stop"), "b")
    assert later.continuation is not None
    assert ("ipi-7-a2", "stop", "terminal_completion") == (
        later.continuation.source_capture_key,
        later.continuation.terminal_finish_reason,
        later.cut_kind,
    )


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "another checkpoint": ({"checkpoint_id": "c"}, "foreign_receipt"),
    "another digest": ({"inventory_digest": HASH}, "foreign_receipt"),
    "another inventory": (
        {"inventory": CutInventory.of("step-120", "policy_model", [CALL])},
        "foreign_receipt",
    ),
    "a call missing": ({"prefixes": (acknowledged(),)}, "incomplete_receipt"),
    "a call twice": (
        {"prefixes": (acknowledged(), acknowledged())},
        "incomplete_receipt",
    ),
    "another call": (
        {
            "prefixes": (
                acknowledged(),
                CutAcknowledgement.failed(attrs.evolve(OTHER, attempt=3)),
            )
        },
        "incomplete_receipt",
    ),
}


@pytest.mark.parametrize(("changes", "code"), LIES.values(), ids=LIES)
def test_a_worker_that_lies(changes: dict[str, Any], code: str) -> None:
    """Its receipt is refused as a whole, with a stable code."""
    with pytest.raises(SchemaError) as caught:
        checked_receipt(INVENTORY, receipt(**changes))

    assert code == caught.value.code


WRONG: dict[str, dict[str, Any]] = {
    "no digest": {"prefix_digest": None},
    "a digest that is none": {"prefix_digest": "x"},
    "no keys": {"staging_keys": ()},
    "a key twice": {"staging_keys": ("k", "k")},
    "fewer than no tokens": {"prefix_token_count": -1},
    "no room": {"effective_output_limit": 0},
    "another kind": {"cut_kind": "both"},
    "another disposition": {"disposition": "maybe"},
    "another finish": {"terminal_finish_reason": "bored"},
    "a stop of what goes on": {"terminal_stop_reason": "x"},
    "a stop that is a list": {
        "terminal_finish_reason": "stop",
        "terminal_stop_reason": freeze([]),
    },
    "places of a failure": {"disposition": "durable_failure"},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG)
def test_an_acknowledgement_that_is_wrong(changes: dict[str, Any]) -> None:
    """Members that contradict each other are refused."""
    with pytest.raises(SchemaError, match="invalid_acknowledgement"):
        attrs.evolve(acknowledged(), **changes)


def test_an_acknowledgement_with_a_stop_reason() -> None:
    """It is a text or a number, of a call that has finished."""
    found = attrs.evolve(
        acknowledged(), terminal_finish_reason="stop", terminal_stop_reason=2
    )

    assert found == structure(unstructure(found), CutAcknowledgement)


TOKENS = st.lists(st.integers(0, 99_999), max_size=12).map(tuple)


@given(TOKENS, TOKENS, st.data())
def test_a_cut_changes_nothing(
    prompt: tuple[int, ...], made: tuple[int, ...], data: st.DataObject
) -> None:
    """Law: cut anywhere and continued with the rest, a call is staged as if never cut."""
    place = data.draw(st.integers(0, len(made)))
    whole = generation(prompt=prompt, generated=(), logprobs=(), output_limit=20)
    for token in made:
        whole = whole.extended(token, -0.25)
    begun = generation(
        prompt=prompt,
        generated=made[:place],
        logprobs=(-0.25,) * place,
        output_limit=20,
    )
    admission = attrs.evolve(begun.admission, generation_cut=begun.cut())
    again = continued(admission, (), begun.staged(), 3)
    assert 20 - place == again.left
    for token in made[place:]:
        again = again.extended(token, -0.25)

    assert whole.staged() == again.staged()
    assert (whole.staging_key, 20 - len(made)) == (again.staging_key, again.left)


def test_a_child_is_cut_after_its_parents() -> None:
    """Its record has its own tokens only; the prefix comes from the parents."""
    admission = CaptureAdmission(
        rollout_id="ipi-7",
        model_call_id="call-3",
        parent_call_id="p",
        prev_len=2,
        mode="token_in",
        staging_chain=("k",),
        parent_chain_hash=HASH,
    )
    child = generation(admission=admission)
    cut = attrs.evolve(admission, generation_cut=child.cut())

    assert (3, 4, 5) == child.staged().tokens
    assert child == attrs.evolve(
        continued(cut, (1, 2), child.staged(), 3), admission=admission
    )
    with pytest.raises(SchemaError, match="foreign_prefix"):
        generation(admission=admission, prompt=(1,)).staged()


FOREIGN: dict[str, dict[str, Any]] = {
    "another rollout": {"source_capture_key": "s"},
    "another call": {"source_model_call_id": "c"},
    "another digest": {"prefix_digest": HASH},
    "another count": {"prefix_token_count": 1},
}


@pytest.mark.parametrize("changes", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_cut(changes: dict[str, Any]) -> None:
    """It is never continued from."""
    begun = generation()
    cut = attrs.evolve(begun.cut(), **changes)
    admission = attrs.evolve(begun.admission, generation_cut=cut)
    with pytest.raises(SchemaError, match="foreign_cut"):
        continued(admission, (), begun.staged(), 3)


def test_who_cannot_go_on() -> None:
    """A call that was not cut, and a worker whose weights are older."""
    begun = generation()
    with pytest.raises(SchemaError, match="foreign_cut"):
        continued(begun.admission, (), begun.staged(), 3)
    admission = attrs.evolve(begun.admission, generation_cut=begun.cut())
    with pytest.raises(SchemaError, match="newer_weights"):
        continued(admission, (), begun.staged(), 2)


def test_unknown_members_are_refused() -> None:
    """All objects are closed."""
    document = JsonObject({**unstructure(INVENTORY), "colour": "red"})
    with pytest.raises(SchemaError, match="unknown_member"):
        structure(document, CutInventory)
