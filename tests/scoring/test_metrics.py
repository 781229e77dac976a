"""Metrics: recorded rows of the reference, and what a mean may depend on."""

from __future__ import annotations

import json

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from documents import at
from hypothesis import given
from hypothesis import strategies as st

from ipistate import SchemaError, aggregate, encode
from ipistate.scoring.metrics import metrics_report
from ipistate.testing import json_values


def test_conformance(
    conformance: Callable[..., list[dict[str, Any]]], proven: Counter[str]
) -> None:
    """Every recorded row holds, with the order of keys and the types of numbers."""
    for row in conformance("metrics.jsonl"):
        metrics, key_metrics = aggregate(row["tasks"])
        proven["metrics rows"] += 1

        assert json.dumps(row["metrics"]) == json.dumps(metrics), row["id"]
        assert json.dumps(row["key_metrics"]) == json.dumps(key_metrics), row["id"]


REWARDS = st.one_of(st.floats(-1, 1), st.sampled_from((0, 1, True, -0.0)))
ROLLOUTS = st.fixed_dictionaries(
    {},
    optional={
        "reward": REWARDS,
        "reward_safety": REWARDS,
        "reward_utility": REWARDS,
        "attack_difficulty": st.sampled_from(("easy", "medium", "hard", None, "")),
        "verification_type": json_values(2),
        "attack_category": st.sampled_from(("a", "b")),
        "mask_sample": st.sampled_from((False, True, None)),
        "_ng_task_index": st.integers(0, 3),
        "_ng_rollout_index": st.integers(0, 2),
    },
)


@given(st.lists(st.lists(ROLLOUTS, max_size=4), max_size=4))
def test_grouping_does_not_matter(tasks: list[list[dict[str, Any]]]) -> None:
    """The metrics are those of all rollouts, however tasks divide them."""
    flat = [rollout for task in tasks for rollout in task]

    assert encode(aggregate([flat]).metrics) == encode(aggregate(tasks).metrics)


@given(st.lists(ROLLOUTS, min_size=1), st.integers())
def test_order_does_not_matter(rollouts: list[dict[str, Any]], seed: int) -> None:
    """A mean is that of the exact sum: no order of rollouts changes a digit."""
    shuffled = list(rollouts)
    Random(seed).shuffle(shuffled)
    first, second = aggregate([rollouts]), aggregate([shuffled])

    assert dict(first.metrics) == dict(second.metrics)
    assert encode(first.key_metrics) == encode(second.key_metrics)


@given(st.lists(ROLLOUTS))
def test_key_metrics_are_metrics(rollouts: list[dict[str, Any]]) -> None:
    """Key metrics repeat metrics, and rollouts that do not count have neither."""
    counted = [one for one in rollouts if not one.get("mask_sample")]
    metrics, key_metrics = aggregate([rollouts])

    assert dict(key_metrics) == {name: metrics[name] for name in key_metrics}
    assert bool(counted) == bool(metrics) == bool(key_metrics)


def test_never_minus_zero() -> None:
    """The mean of nothing but minus zero is written 0.0."""
    metrics, _ = aggregate([[{"reward": -0.0}]])

    assert "0.0" == encode(metrics["avg_reward"]).decode()


@pytest.mark.parametrize(
    ("reward", "code"),
    [
        (None, "wrong_type"),
        ("1", "wrong_type"),
        ([], "wrong_type"),
        (10**400, "out_of_range"),
        (-1e301, "out_of_range"),
        (float("nan"), "out_of_range"),
    ],
)
@pytest.mark.parametrize("member", ["reward", "reward_safety", "reward_utility"])
def test_rewards_are_numbers(member: str, reward: Any, code: str) -> None:
    """A reward that no mean can be taken of is refused with its path."""
    with pytest.raises(SchemaError) as caught:
        aggregate([[], [{}, {member: reward}]])

    assert (code, f"$[1][1].{member}") == (caught.value.code, caught.value.path)


@pytest.mark.parametrize("task", [1, None, 1.5])
def test_tasks_are_arrays(task: float | None) -> None:
    """A task that holds no rollouts is refused with its path."""
    with pytest.raises(SchemaError) as caught:
        aggregate([[], task])  # type: ignore[list-item]

    assert ("wrong_type", "$[1]") == (caught.value.code, caught.value.path)


def test_message_of_a_reward_that_is_out_of_range() -> None:
    """The message is true of NaN as well as of numbers that are too large."""
    with pytest.raises(SchemaError, match=r"between -1e300 and 1e300 \(nan\)"):
        aggregate([[{"reward": float("nan")}]])


def test_rollouts_are_objects() -> None:
    """A rollout that is no object is refused with its path."""
    with pytest.raises(SchemaError) as caught:
        metrics_report([{}, "x"])  # type: ignore[list-item]

    assert "$.verify_responses[1]" == caught.value.path


def test_report() -> None:
    """The reply has an entry for each task and, where it is known, each repeat, in order."""
    responses: list[dict[str, Any]] = [
        {"_ng_task_index": 1, "_ng_rollout_index": 0, "reward": 1.0},
        {"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 0.0},
        {"_ng_task_index": 1, "_ng_rollout_index": 1, "reward": 0.0},
        {"_ng_task_index": 1, "_ng_rollout_index": 2, "mask_sample": True},
        {"reward": 0.5},
    ]
    written: Any = metrics_report(responses)
    levels = [
        [
            (at(entry, index), at(entry, "rollouts"), at(entry, "avg_reward"))
            for entry in group
        ]
        for index, group in (
            ("_ng_task_index", written["group_level_metrics"]),
            ("_ng_rollout_index", written["repeat_level_metrics"]),
        )
    ]

    assert [
        "group_level_metrics",
        "agent_metrics",
        "key_metrics",
        "perf_summary",
        "repeat_level_metrics",
    ] == list(written)
    assert [[(0, 1, 0.0), (1, 2, 0.5), (None, 1, 0.5)], [(0, 2, 0.5), (1, 1, 0.0)]] == (
        levels
    )
    assert 0.375 == at(written, "agent_metrics", "avg_reward")
    assert written["perf_summary"] is None


def without_coverage(report: Any) -> dict[str, Any]:
    """Drop what a report says of masked rollouts."""
    shown = {**report}
    for level in ("agent_metrics", "key_metrics"):
        metrics = report[level]
        shown[level] = {n: m for n, m in metrics.items() if not n.startswith("cov")}
    return shown


@given(st.lists(ROLLOUTS))
def test_report_leaves_masked_rollouts_out(responses: list[dict[str, Any]]) -> None:
    """A masked rollout counts nowhere; the others are those that are aggregated."""
    counted = [one for one in responses if not one.get("mask_sample")]
    written = metrics_report(responses)
    groups: Any = written["group_level_metrics"]

    assert without_coverage(metrics_report(counted)) == without_coverage(written)
    assert (
        dict(aggregate([counted]).metrics).items()
        <= at(written, "agent_metrics").items()
    )
    assert len(counted) == sum(at(entry, "rollouts") for entry in groups)


def test_empty_report() -> None:
    """No rollouts: the members are there and empty."""
    expected: dict[str, Any] = {
        "group_level_metrics": [],
        "agent_metrics": {},
        "key_metrics": {},
        "perf_summary": None,
        "repeat_level_metrics": [],
    }

    assert json.dumps(expected) == json.dumps(metrics_report([]))


@given(st.lists(st.lists(ROLLOUTS, max_size=4), max_size=4))
def test_a12_masked_rollouts_are_in_no_mean(tasks: list[list[dict[str, Any]]]) -> None:
    """A12: what is masked counts nowhere, also where a caller does not leave it out."""
    counted = [[o for o in task if not o.get("mask_sample")] for task in tasks]

    assert encode(aggregate(counted).metrics) == encode(aggregate(tasks).metrics)
