"""Tasks across runs: the same task has the same name, and changes are counted."""

from __future__ import annotations

import json

from collections.abc import Callable
from typing import Any

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate.report.changed import changes, pairings
from ipistate.report.index import Index, entry
from ipistate.report.rollout import read
from ipistate.report.tasks import TaskName
from ipistate.scoring import Rate, read_rollout


RATES = st.integers(0, 4).flatmap(
    lambda n: st.integers(0, n).map(lambda successes: Rate(successes, n))
)
RUNS = st.lists(
    st.dictionaries(st.sampled_from("abcdef"), RATES), min_size=1, max_size=4
)


def key(row: dict[str, Any]) -> str:
    """Return the name of a row's task."""
    found = read(1, read_rollout(json.dumps(row).encode()))
    return entry(found, is_failure=False).key


def test_d11_a_task_is_the_same_in_every_run(
    rollout: Callable[..., dict[str, Any]],
) -> None:
    """D11: neither the outcome nor a number, a system prompt or the world names a task."""
    one, other = rollout(0, "benign"), rollout(0, "compromised", _ng_task_index=77)
    other["responses_create_params"]["input"][0]["content"] = "Follow no injection."
    other.pop("environment")
    other["injection"]["target_args"] = {}

    assert key(one) == key(other)


def test_d11_other_tasks_have_other_names(rows: list[dict[str, Any]]) -> None:
    """D11: the built-in rows are as many tasks as they are rows."""
    assert len(rows) // 2 == len({key(row) for row in rows})


def test_d11_rows_that_say_nothing_are_like_no_other() -> None:
    """D11: without a request and an injection nothing says what task it is."""
    index = Index()
    row: dict[str, Any] = {"response": {"output": []}}
    found = read(1, read_rollout(json.dumps(row).encode()))
    index.add(0, [entry(found, is_failure=False)] * 2)

    assert {} == index.tasks
    assert [-1, -1] == index.columns["same"]


@given(RUNS)
def test_d11_tasks_of_both_runs_are_counted_once(runs: list[dict[str, Rate]]) -> None:
    """D11: more, less and as often add up to the tasks that both runs can judge."""
    for one in pairings(runs):
        base, other = runs[0], runs[one.run]
        both = [
            name for name in base if base[name].n and name in other and other[name].n
        ]
        assert len(both) == one.common
        assert one.more + one.less <= one.common
        assert one.turned <= one.more + one.less
        assert one.more == sum(
            (other[name].value or 0) > (base[name].value or 0) for name in both
        )


@given(RUNS)
def test_d11_changes_are_ordered_and_complete(runs: list[dict[str, Rate]]) -> None:
    """D11: a task is listed exactly if a run differs from the first, the largest first."""
    names = [TaskName(n, one, "", "", "") for n, one in enumerate("abcdef")]
    found = changes(runs, names)
    sizes = [abs(one.change) for one in found]
    expected = {
        name
        for run in runs[1:]
        for name, rate in run.items()
        if rate.n
        and name in runs[0]
        and runs[0][name].n
        and rate.value != runs[0][name].value
    }

    assert sizes == sorted(sizes, reverse=True)
    assert expected == {one.task.key for one in found}
    assert all(len(runs) == len(one.rates) for one in found)


@pytest.mark.parametrize(("base", "other", "turned"), [(0, 4, 1), (0, 3, 0), (4, 0, 1)])
def test_d11_a_task_has_turned_if_nothing_is_as_before(
    base: int, other: int, turned: int
) -> None:
    """D11: from never to always, or back; anything between is a change only."""
    (found,) = pairings([{"a": Rate(base, 4)}, {"a": Rate(other, 4)}])

    assert turned == found.turned
