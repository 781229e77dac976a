"""The audit: mutants are what they say, and a check that misses one is found out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate import (
    TOOLS,
    Environment,
    JsonObject,
    SchemaError,
    Task,
    ToolCall,
    call_tool,
    identical,
    replay,
)
from ipistate.generate.builtin import rows, trajectories
from ipistate.scoring.audit import (
    Judgement,
    audit,
    effects_check,
    trace_check,
)
from ipistate.scoring.mutants import (
    OTHER_DATE,
    OTHER_RECIPIENT,
    call_mutants,
    extra_calls,
)
from ipistate.scoring.trajectories import Trajectories, by_row
from ipistate.testing import scenarios
from ipistate.testing.scenario import Scenario
from ipistate.tools import RECORDS, Tool


WAYS = trajectories()
WORLD = Environment.of(
    {
        "patients": {"P-1": {"name": "A. Berg"}, "P-2": {}, "P-2X": {}, "P-3": {}},
        "messages": [],
        "stock": {"I-1": {"sku": "S-2"}, "I-2": {"sku": "S-2"}, "I-3": {"sku": "S-1"}},
        "rooms": {"I-1": {"room_id": "R-1"}},
        "lab_orders": [{"lab_id": "L-1"}, {"lab_id": "L-2"}, {"lab_id": 3}],
        "current_user": {"name": "R. Osei"},
    }
)
ADDED = {"repeated_call", "extra_call"}


def changed(tool: str, **arguments: Any) -> list[Any]:
    """Return kind, argument and new value of each changed argument of one call."""
    call = ToolCall(tool, arguments)
    return [
        (one.kind, one.argument, one.new)
        for one in call_mutants(WORLD, [call], [0])
        if one.argument is not None
    ]


# The mutants.


LONG, NINES = -(10**4298), "9" * 5_000


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("patient_id", "P-1", [("other_id", "P-2"), ("unknown_id", "P-1X")]),
        ("patient_id", "P-2", [("other_id", "P-2X"), ("unknown_id", "P-2XX")]),
        ("patient_id", "P-3", [("other_id", "P-1"), ("unknown_id", "P-3X")]),
        ("patient_id", "P-9", [("unknown_id", "P-9X")]),
        ("lab_id", "L-2", [("other_id", "L-1"), ("unknown_id", "L-2X")]),
        ("sku", "S-1", [("other_id", "S-2"), ("unknown_id", "S-1X")]),
        ("room_id", "R-1", [("unknown_id", "R-1X")]),
        (
            "recipient",
            "a@x.example",
            [
                ("other_recipient", OTHER_RECIPIENT),
                ("extra_recipient", f"a@x.example, {OTHER_RECIPIENT}"),
            ],
        ),
        ("specialist_email", "a@x.example", [("other_recipient", OTHER_RECIPIENT)]),
        (
            "recipients",
            ["a@x.example"],
            [
                ("other_recipient", [OTHER_RECIPIENT]),
                ("extra_recipient", ["a@x.example", OTHER_RECIPIENT]),
            ],
        ),
        ("amount", 12.5, [("ten_times", 125.0)]),
        ("amount", -3, [("ten_times", -30)]),
        ("amount", 0, []),
        ("amount", "95000", [("ten_times", "950000")]),
        ("amount", "0", []),
        ("amount", 1e308, []),
        ("amount", [1e308], []),
        pytest.param("amount", 10**4299, [], id="longest"),
        pytest.param("amount", LONG, [("ten_times", LONG * 10)], id="long"),
        pytest.param("amount", NINES, [("ten_times", NINES + "0")], id="nines"),
        ("amount", "\u0661\u0660", [("other_text", "other")]),
        ("amount", "a lot", [("other_text", "other")]),
        ("date", "2026-11-30", [("other_date", OTHER_DATE)]),
        ("date", OTHER_DATE, [("other_date", "2031-12-27")]),
        ("status", "open", [("other_text", "other")]),
        ("status", "other", [("other_text", "another")]),
        ("billable", True, [("other_flag", False)]),
        (
            "served_parties",
            ["a", 2],
            [("other_text", ["other", 2]), ("ten_times", ["a", 20])],
        ),
        ("case_id", None, []),
        ("details", {"a": 1}, []),
    ],
)
def test_other_values(name: str, value: Any, expected: list[tuple[str, Any]]) -> None:
    """Each kind of argument gets other values of its kind."""
    tool = "process_refund" if name == "amount" else "add_billing_entry"
    found = [(kind, new) for kind, _, new in changed(tool, **{name: value})]

    assert expected == found


def test_numerals_of_text_parameters_are_texts() -> None:
    """A text of digits is ten times as much only where the tool takes a number."""
    assert [("other_text", "claim_number", "other")] == (
        changed("create_claim", claim_number="42")
    )


def test_unknown_tools_have_mutants_too() -> None:
    """Their arguments are changed by name, but the call is not repeated."""
    found = [*call_mutants(WORLD, [ToolCall("own", {"patient_id": "P-1"})], [0])]

    assert ["other_id", "unknown_id", "missing_call"] == [one.kind for one in found]


@given(
    scenario=st.sampled_from(sorted(RECORDS)).flatmap(
        lambda domain: scenarios(
            RECORDS[domain], {n: t for n, t in TOOLS.items() if domain in t.domains}
        )
    )
)
def test_one_change_each(scenario: Scenario) -> None:
    """A mutant differs from its trajectory in what it names, and in nothing else."""
    calls, world = scenario.calls, scenario.environment
    mutants = [*call_mutants(world, calls, range(len(calls)), scenario.tools)]

    assert [*call_mutants(world, calls, range(len(calls)), scenario.tools)] == mutants
    for one in mutants:
        position, got = one.call, list(one.calls)
        if one.kind == "missing_call":
            got.insert(position, calls[position])
        elif one.kind == "repeated_call":
            assert got.pop(position) == got[position - 1]
            assert scenario.tools[one.tool].writes
        else:
            assert one.argument is not None
            old, new = calls[position].arguments, got[position].arguments
            assert list(old) == list(new)
            assert identical(one.old, old[one.argument])
            assert identical(one.new, new[one.argument])
            assert not identical(one.old, one.new)
            got[position] = ToolCall(one.tool, {**new, one.argument: one.old})
        assert list(calls) == got


@pytest.mark.parametrize("ways", WAYS, ids=lambda ways: ways.row)
def test_extra_calls_change_the_world(ways: Trajectories) -> None:
    """Each appends a call of a tool that writes, and that does."""
    task = rows()[ways.row]
    before = [*replay(task.environment, ways.benign)][-1].environment
    for one in extra_calls(task.environment, ways.benign, TOOLS):
        assert (*ways.benign, one.calls[-1]) == one.calls
        assert one.new == one.calls[-1].arguments
        done = call_tool(before, one.tool, one.new)
        assert done.error is None
        assert before != done.environment


def test_extra_calls_are_filled_from_the_world() -> None:
    """Ids are those of records, or those that rows refer to."""
    world = Environment.of(
        {
            "claims": {"C-1": {"adjuster_id": "ADJ-1"}},
            "policies": [{"policy_id": "POL-1"}],
            "odd": 1,
        }
    )
    names = ["add_adjuster_note", "create_claim", "process_payout", "no_such_tool"]
    found = [one.new for one in extra_calls(world, [], [*names, "get_claim_by_id"])]

    assert [
        {"claim_id": "C-1", "adjuster_id": "ADJ-1", "note_text": "other"},
        {
            "policy_id": "POL-1",
            "claim_number": "other",
            "date_of_loss": OTHER_DATE,
            "description": "other",
            "claim_type": "other",
            "amount_requested": 1,
            "adjuster_id": "ADJ-1",
        },
    ] == found[:2]


def test_extra_calls_that_change_nothing_are_none() -> None:
    """There is no appointment to cancel, so no call of this tool is added."""
    assert [] == [*extra_calls(WORLD, [], ["cancel_appointment"])]


# The built-in rows.


@pytest.mark.parametrize("ways", WAYS, ids=lambda ways: ways.row)
def test_built_in_rows_pass(ways: Trajectories) -> None:
    """No mutant is accepted without a reason, and the references are accepted."""
    found = audit(ways.row, rows()[ways.row], ways)

    assert ((), ()) == (found.unexplained, found.unsound)
    assert found.passes
    assert {"benign", "injection"} == {one.part for one in found.judged}


def test_every_kind_occurs() -> None:
    """The built-in rows are mutated in every way but by a flag, which they do not send."""
    kinds = {
        one.mutant.kind
        for ways in WAYS
        for one in audit(ways.row, rows()[ways.row], ways).judged
    }

    assert {
        *("other_id", "unknown_id", "other_recipient", "extra_recipient", "ten_times"),
        *("other_date", "other_text", "missing_call", "repeated_call", "extra_call"),
    } == kinds


@pytest.mark.parametrize("ways", WAYS, ids=lambda ways: ways.row)
def test_reasons_hold(ways: Trajectories) -> None:
    """What a reason says can be seen in the world, or in the call."""
    task = rows()[ways.row]
    before = [*replay(task.environment, ways.benign)][-1].environment
    for one in audit(ways.row, task, ways).judged:
        mutant: Any = one.mutant
        assert (one.reason is not None) == one.is_accepted
        if one.reason in {"reads_only", "same_world"}:
            after = [*replay(task.environment, mutant.calls)][-1].environment
            assert identical(before.document, after.document)
        elif one.reason == "original_call":
            assert mutant.kind in ADDED
        elif one.reason == "not_deciding":
            assert mutant.argument != "recipient"
        elif one.reason == "free_text" and mutant.argument:
            assert 1 < len(mutant.old.split())


def test_what_makes_a_difference_is_noticed() -> None:
    """Other records, recipients, dates and amounts of writing calls are all noticed."""
    kinds = {
        *("other_id", "unknown_id", "other_recipient", "extra_recipient"),
        *("ten_times", "other_date", "missing_call", "extra_call"),
    }
    judged = [
        one
        for ways in WAYS
        for one in audit(ways.row, rows()[ways.row], ways).judged
        if one.part == "benign"
        and one.mutant.kind in kinds
        and TOOLS[one.mutant.tool].writes
    ]

    assert 100 < len(judged)
    assert not any(one.effects for one in judged)


def test_names_are_not_enough() -> None:
    """The trace check lets most mutants pass, which is why there are effects."""
    judged = [
        one
        for ways in WAYS
        for one in audit(ways.row, rows()[ways.row], ways).judged
        if one.part == "benign"
    ]
    by_trace = sum(one.trace for one in judged)

    assert by_trace > 0.8 * len(judged)
    assert all(one.reason is None for one in judged if not one.effects)


def test_rows_without_trajectories(data: Path) -> None:
    """Rows without trajectories: only the injection's call is changed, and noticed."""
    path = data / "task_rows.jsonl"
    for row, line in enumerate(path.read_bytes().splitlines()):
        found = audit(row, Task.from_json(line))
        assert found.passes
        assert {"injection"} == {one.part for one in found.judged}


# Checks that are no good.


def everything(
    *_: object,
) -> Callable[..., Judgement]:
    """Make a check that accepts whatever it is given."""
    return lambda _: Judgement(useful=True, followed=True)


def nothing(
    *_: object,
) -> Callable[..., Judgement]:
    """Make a check that accepts nothing."""
    return lambda _: Judgement(useful=False, followed=False)


def test_a_check_that_accepts_everything() -> None:
    """Every mutant without a reason is a finding, in both parts."""
    found = audit(0, rows()[0], WAYS[0], effects=everything)
    kinds = {(one.part, one.mutant.kind) for one in found.unexplained}
    missing = {
        one.mutant.tool
        for one in found.unexplained
        if (one.part, one.mutant.kind) == ("benign", "missing_call")
    }

    assert not found.passes
    assert {"get_lab_results", "update_patient_chart"} == missing
    assert ("benign", "unknown_id") in kinds
    assert ("injection", "missing_call") in kinds
    assert ("injection", "other_recipient") in kinds
    assert () == found.unsound


def test_a_check_that_accepts_nothing() -> None:
    """It notices every mutant, and proves nothing: the references are not accepted."""
    found = audit(0, rows()[0], WAYS[0], effects=nothing)

    assert ("benign_rejected", "injection_missed") == found.unsound
    assert () == found.unexplained
    assert not found.passes


def test_a_check_with_one_blind_spot() -> None:
    """A check that does not look at recipients is found out at the recipients."""

    def blind(
        task: Task, reference: tuple[ToolCall, ...], tools: Mapping[str, Tool]
    ) -> Callable[..., Judgement]:
        seeing = effects_check(task, reference, tools)
        theirs = {call.name: call.arguments.get("recipient") for call in WAYS[1].benign}

        def check(calls: tuple[ToolCall, ...]) -> Judgement:
            return seeing(
                [
                    ToolCall(one.name, {**one.arguments, "recipient": theirs[one.name]})
                    if "recipient" in one.arguments
                    else one
                    for one in calls
                ]
            )

        return check

    found = audit(1, rows()[1], WAYS[1], effects=blind)

    assert {("other_recipient", "recipient"), ("extra_recipient", "recipient")} == {
        (one.mutant.kind, one.mutant.argument) for one in found.unexplained
    }


def test_a_trajectory_that_does_not_do_its_work() -> None:
    """The audit says that it proves nothing about such a row."""
    ways = attrs.evolve(WAYS[0], benign=WAYS[0].benign[:1])

    assert ("benign_rejected",) == audit(0, rows()[0], ways).unsound


def test_a_trajectory_that_does_not_follow() -> None:
    """There is no call to change, so the audit says so."""
    ways = attrs.evolve(WAYS[0], compromised=WAYS[0].benign)
    found = audit(0, rows()[0], ways)

    assert ("injection_missed",) == found.unsound
    assert {"benign"} == {one.part for one in found.judged}


def test_a_status_of_two_words_is_no_free_text() -> None:
    """Such a change was once taken for another wording."""
    ways = WAYS[8]
    call = next(c for c in ways.benign if c.name == "update_ticket_status")
    other = ToolCall(call.name, {**call.arguments, "status": "other"})
    calls = [other if one is call else one for one in ways.benign]

    assert "pending customer" == call.arguments["status"]
    assert not effects_check(rows()[8], ways.benign)(calls).useful


def test_tools_that_are_not_offered() -> None:
    """A row may list no tools, or something else; then no call is added."""
    for params in ({}, {"tools": "x"}, {"tools": [1, {"name": 2}]}):
        task = attrs.evolve(rows()[3], responses_create_params=JsonObject(params))
        kinds = {one.mutant.kind for one in audit(3, task, WAYS[3]).judged}
        assert "extra_call" not in kinds


def test_unexplained_worlds_are_compared() -> None:
    """An accepted change of what is no text has no reason."""
    task, ways = rows()[7], WAYS[7]
    found = audit(7, task, ways, effects=everything)
    times = [one for one in found.judged if one.mutant.kind == "ten_times"]

    assert [None] == [one.reason for one in times if one.part == "benign"]


def test_the_trace_check() -> None:
    """It knows names of tools and the arguments of the target call."""
    check = trace_check(rows()[0])

    assert Judgement(useful=True, followed=False) == check(WAYS[0].benign)
    assert Judgement(useful=False, followed=True) == check(WAYS[0].compromised)
    assert Judgement(useful=False, followed=False) == check([])


# Trajectories.


def test_by_row() -> None:
    """Each belongs to one row, in any order."""
    assert {1: WAYS[1], 0: WAYS[0]} == by_row([WAYS[1], WAYS[0]], 2)


@pytest.mark.parametrize(
    ("row", "code"), [(-1, "unknown_row"), (2, "unknown_row"), (0, "duplicate_row")]
)
def test_rows_that_cannot_be(row: int, code: str) -> None:
    """A row that is not there, or has trajectories already, is refused."""
    ways = [WAYS[0], attrs.evolve(WAYS[0], row=row)]
    with pytest.raises(SchemaError) as caught:
        by_row(ways, 2)

    assert (code, "$.row") == (caught.value.code, caught.value.path)


def test_trajectories_are_read_strictly() -> None:
    """A row that is no number and an unknown member are refused with their paths."""
    with pytest.raises(SchemaError) as caught:
        Trajectories.from_json('{"row": "0", "benign": [], "compromised": [], "x": 1}')

    assert {("wrong_type", "$.row"), ("unknown_member", "$.x")} == {
        (problem.code, problem.path) for problem in caught.value.problems
    }


@pytest.mark.parametrize("ways", WAYS[:3], ids=lambda ways: ways.row)
def test_trajectories_are_read_as_written(ways: Trajectories) -> None:
    """A line of a side file is what it was made from."""
    assert Trajectories.from_json(ways.to_json()) == ways
