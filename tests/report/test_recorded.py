"""Settings, turns, tokens and cost: what a row records, and nothing that it does not."""

from __future__ import annotations

import json

from collections.abc import Callable
from typing import Any

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate.kernel import JsonObject
from ipistate.report import Source, recorded
from ipistate.report.chunk import Here, ReportLine, as_it_is
from ipistate.report.index import Index
from ipistate.report.recorded import (
    Amount,
    RecordedUse,
    amounts_of,
    settings_of,
    turns_of,
)
from ipistate.report.rollout import read
from ipistate.report.runs import Run, collect
from ipistate.report.settings import setting_rows
from ipistate.scoring import read_rollout


CALL = {"type": "function_call", "call_id": "a", "name": "get_inbox", "arguments": "{}"}
REPLY = {"type": "function_call_output", "call_id": "a", "output": "[]"}
SAID = {"type": "message", "role": "assistant", "content": "Done."}
THOUGHT = {"type": "reasoning", "summary": []}


def row_of(**members: Any) -> JsonObject:
    """Read a row, as a report does."""
    return read_rollout(json.dumps(members).encode())


def told(*runs: Run) -> dict[str, tuple[str | None, ...]]:
    """Return what the page says of runs, by its names."""
    return {one.name: one.values for one in setting_rows(runs)}


@pytest.mark.parametrize(
    ("output", "turns"),
    [
        ([], 0),
        ([SAID], 1),
        ([THOUGHT, CALL, REPLY, SAID], 2),
        ([CALL, CALL, REPLY, REPLY, THOUGHT, CALL, REPLY], 2),
        (["text", 3], 1),
    ],
)
def test_d11_turns_of_items(output: list[Any], turns: int) -> None:
    """D11: a turn is what the model said between replies."""
    assert turns == turns_of(row_of(response={"output": output}))


def test_d11_turns_of_messages() -> None:
    """D11: what a user or a system says is no turn of the model."""
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": []},
        {"role": "tool", "content": "[]"},
        {"role": "assistant", "content": "Done."},
    ]

    assert 2 == turns_of(row_of(messages=messages))


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input_tokens": 7, "output_tokens": 3}, {"tokens_in": 7, "tokens_out": 3}),
        (
            {"prompt_tokens": 7, "completion_tokens": 0, "cost": 0.25},
            {"tokens_in": 7, "tokens_out": 0, "cost": 0.25},
        ),
        ({"input_tokens": True, "output_tokens": -1, "cost": True}, {}),
        ({"input_tokens": 10**30, "output_tokens": 1.5, "cost": "free"}, {}),
        ({"cost": -1}, {}),
        ({"cost": 10**30}, {}),
        (None, {}),
        ([], {}),
    ],
)
def test_d11_amounts_are_those_recorded(usage: Any, expected: dict[str, Any]) -> None:
    """D11: both names of tokens are read; what is no count is not recorded."""
    assert expected == amounts_of(row_of(response={"output": [], "usage": usage}))


def test_d11_settings_are_those_of_the_response() -> None:
    """D11: the response says how it was asked for; what is null says nothing."""
    asked = {"model": "m", "temperature": 0.5, "top_p": None, "seed": 3}
    row = row_of(response={**asked, "reasoning": {"effort": "low"}, "output": []})
    expected = {"model": "m", "temperature": "0.5", "reasoning": "low", "seed": "3"}

    assert expected == dict(settings_of(row))
    assert {"model": "m"} == dict(settings_of(row_of(model="m", messages=[])))


PARTS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", 0.5, None]),
        st.integers(0, 50) | st.none(),
        st.integers(0, 3),
    ),
    max_size=12,
)


@given(PARTS, st.integers(0, 12))
def test_d11_counting_in_parts_is_counting_the_whole(
    parts: list[tuple[Any, int | None, int]], cut: int
) -> None:
    """D11: however rows are cut into chunks, settings and sums are the same."""
    rows = [
        row_of(
            response={
                "model": model,
                "usage": {"input_tokens": tokens},
                "output": [THOUGHT, CALL, REPLY] * calls,
            }
        )
        for model, tokens, calls in parts
    ]
    whole, first, second = RecordedUse(), RecordedUse(), RecordedUse()
    for number, row in enumerate(rows):
        one = read(number, row)
        whole.add(one)
        (first if number < cut else second).add(one)
    first.merge(second)

    assert whole.to_document() == first.to_document()
    known = [tokens for _, tokens, _ in parts if tokens is not None]
    found = whole.amounts.get("tokens_in", Amount())
    assert (sum(known), len(known)) == (found.total, found.n)


def test_d11_values_of_a_setting_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """D11: a file with a model for each row keeps some, and counts the others."""
    monkeypatch.setattr(recorded, "MOST_VALUES", 3)
    found = RecordedUse()
    for number in range(10):
        name = f"m{number}" * 100
        found.add(read(number, row_of(response={"model": name, "output": []})))

    assert 7 == found.settings["model"]["others"]
    assert all(len(one) <= 121 for one in found.settings["model"])


def test_d11_masked_rollouts_have_cost_and_no_turns() -> None:
    """D11: what failed has taken tokens, but is no rollout whose turns count."""
    failed = row_of(
        mask_sample=True,
        response={"output": [SAID], "usage": {"input_tokens": 5}},
    )
    found = RecordedUse()
    found.add(read(1, failed))

    assert {"tokens_in"} == found.amounts.keys()


def test_d11_what_is_not_recorded_is_said() -> None:
    """D11: model, API, temperature, seed and steps are told of, known or not."""
    found = told(Run("run"))

    assert {(None,)} == {*found.values()}
    names = {"Model", "API", "Temperature", "Seed", "Most turns", "Cost"}
    assert names <= found.keys()


def test_d11_the_run_s_own_file_says_the_rest() -> None:
    """D11: what rollouts record goes before what the run's file says."""
    options = {"model": "asked", "api": "chat", "temperature": 0.2}
    made = row_of(policy="openai", policy_options=options, seed=4, max_steps=50)
    run = Run("run", made=made)
    run.recorded.add(read(1, row_of(response={"model": "served", "output": []})))
    found = told(run)

    assert ("served",) == found["Model"]
    assert [("chat",), ("0.2",), ("4",), ("50",), ("openai",)] == [
        found[name] for name in ("API", "Temperature", "Seed", "Most turns", "Policy")
    ]


def test_d11_several_values_are_counted() -> None:
    """D11: a run of several models names the most frequent ones."""
    run = Run("run")
    for number, name in enumerate("aaabbcdde"):
        row = row_of(response={"model": name, "output": []})
        run.recorded.add(read(number, row))

    assert ("a (3), b (2), d (2), and 2 more",) == told(run)["Model"]


def test_d11_sums_have_their_n(
    rollout: Callable[..., dict[str, Any]], lines: Callable[..., list[bytes]]
) -> None:
    """D11: a sum over some of the rollouts says over how many."""
    rows = [rollout(0, "benign"), rollout(1, "benign")]
    rows[0]["response"]["usage"] = {"input_tokens": 1000, "cost": 0.5}
    source = Source("run", [ReportLine(n, one) for n, one in enumerate(lines(rows), 1)])
    runs, index = collect([source], Here(lambda: as_it_is), str, print)
    found = told(*runs)

    assert ("1,000 in all, 1,000 a rollout (n = 1)",) == found["Tokens read"]
    assert ("0.50 in all, 0.5000 a rollout (n = 1)",) == found["Cost"]
    assert ("2",) == found["Tasks"]
    assert isinstance(index, Index)
    assert 2 == len(index.tasks)
