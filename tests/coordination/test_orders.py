"""The fixed orders, for any set of participants."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ipistate.coordination.participants import (
    AT_ONCE,
    PREPARE,
    RESUME,
    RETIRE,
    Kind,
    Participant,
    ordered,
    stages,
)


participants = st.lists(
    st.builds(
        Participant,
        st.text("abc", min_size=1, max_size=3),
        st.just("http://h"),
        st.sampled_from(Kind),
    ),
    max_size=8,
    unique=True,
)
orders = st.sampled_from([PREPARE, RESUME, AT_ONCE, RETIRE])


@given(orders, participants)
def test_stages_have_everybody_once(
    order: tuple[frozenset[Kind], ...], everybody: list[Participant]
) -> None:
    """Each participant is in exactly one stage, and no stage is empty."""
    split = stages(order, everybody)

    assert all(split)
    assert sorted(everybody, key=str) == sorted(sum(split, ()), key=str)


@given(orders, participants)
def test_order_of_listing_does_not_matter(
    order: tuple[frozenset[Kind], ...], everybody: list[Participant]
) -> None:
    """The stages depend on who takes part, not on how they were listed."""
    assert stages(order, everybody) == stages(order, everybody[::-1])


def kinds(order: tuple[frozenset[Kind], ...]) -> list[list[str]]:
    """Return the kinds of each stage, for one participant of each kind."""
    everybody = [Participant("x", "http://h", kind) for kind in Kind]
    return [[str(one.kind) for one in stage] for stage in stages(order, everybody)]


def test_orders_are_those_of_the_spec() -> None:
    """Section 5.1, literally."""
    assert [["environment"], ["model"], ["agent"], ["resources"]] == kinds(PREPARE)
    assert [["resources"], ["agent"], ["model"], ["environment"]] == kinds(RESUME)
    assert [["environment", "model", "agent", "resources"]] == kinds(AT_ONCE)
    assert [["environment"], ["agent"], ["model", "resources"]] == kinds(RETIRE)


def test_members_are_sorted_by_stage_and_name() -> None:
    """Members are sorted by prepare order, then by name (section 5.2)."""
    listed = [("b", "agent"), ("c", "environment"), ("a", "agent"), ("a", "resources")]
    sorted_ = ordered(
        Participant(name, "http://h", Kind(kind)) for name, kind in listed
    )

    assert ["c", "a", "b", "a"] == [one.name for one in sorted_]
    assert Kind.RESOURCES == sorted_[-1].kind
