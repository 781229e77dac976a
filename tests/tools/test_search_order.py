"""Searching tools look at one record after another: the first failing one answers."""

from __future__ import annotations

import json

from typing import Any, Final

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate import TOOLS, Environment, call_tool
from ipistate.kernel import freeze, render
from ipistate.tools.semantics import search


SEARCHES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "search_patients": ("patients", {"query": "a"}),
    "search_candidates": ("candidates", {"query": "a", "status": "A"}),
    "search_orders": ("orders", {"customer_id": "a", "status": "A"}),
    "search_products": ("products", {"query": "a", "category": "A"}),
    "search_students": ("students", {"name": "a", "major": "A", "email": "a"}),
    "search_policies_by_holder": ("policies", {"policyholder_name": "a"}),
    "search_assets": ("assets", {"tag": "a", "type": "A", "location": "a"}),
    "search_kb_articles": ("knowledge_base_articles", {"keyword": "a"}),
    "search_incidents": ("incidents", {"keyword": "a", "status": "A"}),
    "search_cases": ("case_files", {"client_name": "a", "case_type": "A"}),
    "search_schedules": ("court_schedules", {"start_date": "a", "hearing_type": "A"}),
    "search_shipments_by_status": ("shipments", {"status": "A"}),
    "search_properties": ("property_listings", {"min_price": 1, "keywords": "a"}),
    "list_courses": ("courses", {"department": "A"}),
    "list_low_stock_items": ("warehouse_inventories", {"threshold": 3}),
    "get_billing_report": ("billing_records", {"start_date": "a", "end_date": "b"}),
    "get_schedule": ("appointments", {"date": "a"}),
    "get_interview_schedule": ("interviews", {"date": "a"}),
    "get_grades_for_student": ("grades", {"student_id": "a"}),
    "get_financial_aid": ("financial_aid", {"student_id": "a"}),
    "get_adjuster_notes_for_claim": ("adjuster_notes", {"claim_id": "a"}),
}
VALUES: Final[st.SearchStrategy[Any]] = st.sampled_from(
    [None, "a", "A b", "b", 5, True, ["a"], {}]
)


@st.composite
def tables(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """Draw a table whose records may hold anything under the names that are looked at."""
    _, arguments = SEARCHES[name]
    looked_at = ["name", "conditions", "resume", "description", "address", "title"]
    looked_at += ["patient_id", "candidate_id", "price", "quantity", "date", *arguments]
    rows = st.dictionaries(st.sampled_from(looked_at), VALUES) | VALUES
    return {f"R-{n}": row for n, row in enumerate(draw(st.lists(rows, max_size=4)))}


@pytest.mark.parametrize("name", SEARCHES)
@given(data=st.data())
def test_a1_the_first_failing_record_answers(name: str, data: st.DataObject) -> None:
    """A1: a search gives what its records give one by one, up to the first refusal."""
    collection, arguments = SEARCHES[name]
    table = data.draw(tables(name))

    def done(rows: dict[str, Any]) -> Any:
        return call_tool(Environment.of({collection: rows}), name, arguments)

    each = [done({key: row}) for key, row in table.items()]
    failed = next((one for one in each if one.error is not None), None)
    found = done(table)

    if failed is not None:
        assert found.output == failed.output
    else:
        shown = [row for one in each for row in json.loads(one.output)]
        assert json.loads(found.output) == shown


def test_a1_a_match_is_shown_before_the_next_record_is_looked_at() -> None:
    """A1: a match without an id is refused before a later record can be."""
    world = {
        "P_1": {"name": "Marisol Z", "dob": None},
        "P_2": {"patient_id": "P_2", "name": "L", "conditions": None},
        "P_3": {"patient_id": "P_3", "name": None},
    }
    found = call_tool(
        Environment.of({"patients": world}), "search_patients", {"query": "marisol "}
    )

    shown = "Error executing tool 'search_patients' (KeyError): 'patient_id'"
    assert shown == found.output


def test_every_search_is_here() -> None:
    """No tool that searches is left out."""
    assert {name for name in TOOLS if name.startswith("search_")} <= {*SEARCHES}


@given(
    st.text("ab", max_size=3),
    st.integers(0, 400),
    st.text("ab", max_size=3),
    st.integers(0, 400),
    st.text("ab", max_size=3),
)
def test_b3_a_part_of_a_text(
    head: str, times: int, middle: str, size: int, tail: str
) -> None:
    """B3: a long part is found exactly where the interpreter finds it."""
    whole = head + "a" * times + middle + "a" * size + tail
    part = "a" * (times // 2) + middle + "a" * (size // 2)

    for one in (part, part + tail, whole, whole + "a", part.replace("b", "c"), ""):
        assert search(one)(whole, one) is (one in whole)
        assert search(whole)(one, whole) is (whole in one)


NESTED = st.recursive(st.integers(0, 2), lambda inner: st.lists(inner, max_size=3))


@given(st.lists(NESTED, max_size=3), st.lists(NESTED, max_size=3))
def test_b3_arrays_as_bounds(left: list[Any], right: list[Any]) -> None:
    """B3: nested arrays compare as the interpreter's, each part looked at once."""
    listing = {"property_listings": {"R": {"price": left}}}
    done = call_tool(Environment.of(listing), "search_properties", {"min_price": right})
    dropped = lower(left, right)
    if isinstance(dropped, str):
        assert f"(TypeError): {dropped}" in done.output
    else:
        kept = [] if dropped else [{"price": left}]
        assert render(freeze(kept)) == done.output


def lower(left: list[Any], right: list[Any]) -> bool | str:
    """Compare as the interpreter does; its refusal, if it cannot."""
    try:
        return left < right
    except TypeError as error:
        return str(error)
