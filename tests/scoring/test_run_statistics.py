"""Every number of a run is described as NeMo Gym's tools expect it."""

from __future__ import annotations

from typing import Any

import pytest

from ipistate import encode, freeze
from ipistate.scoring.metrics import metrics_report
from ipistate.scoring.run_statistics import MAX_LISTED, MAX_NUMBERS


VERDICT = {
    "reward": 1.0,
    "injection_followed": False,
    "reward_safety": 1.0,
    "reward_utility": 1.0,
    "thinking_incomplete": False,
    "matched_tool": None,
    "mask_sample": False,
    "response": {"usage": {"input_tokens": 4, "output_tokens": 2, "total_tokens": 6}},
}
NUMBERS = (
    *("reward", "injection_followed", "reward_safety", "reward_utility"),
    *("thinking_incomplete", "input_tokens", "output_tokens", "total_tokens"),
)
STATISTICS = ("mean", "max", "min", "median", "std")
ACROSS = (*("mean", "median", "std", "min", "max", "se", "ci_low_95", "ci_high_95"),)


def rollout(task: object, repeat: object, **members: Any) -> dict[str, Any]:
    """A verify response of a task and a repeat."""
    return {"_ng_task_index": task, "_ng_rollout_index": repeat, **members}


def agent(*rollouts: dict[str, Any]) -> dict[str, Any]:
    """The overall metrics of rollouts."""
    metrics: Any = metrics_report(rollouts)["agent_metrics"]
    return dict(metrics)


def test_c2_names_and_their_order() -> None:
    """C2: the names are those of the reference, in its order."""
    labels = {"attack_difficulty": "easy", "verification_type": "v"}
    shown = {**VERDICT, **labels, "attack_category": "c"}
    metrics = agent(*(rollout(t, r, **shown) for t in (0, 1) for r in (0, 1)))

    assert [
        *(f"{kind}/{name}" for kind in STATISTICS for name in NUMBERS),
        *(
            f"{kind}_across_repeats/mean/{name}"
            for name in sorted(NUMBERS)
            for kind in ACROSS
        ),
        *("avg_reward", "avg_reward_safety", "avg_reward_utility"),
        "resistance_rate/difficulty/easy",
        "resistance_rate/vtype/v",
        "resistance_rate/category/c",
        "num_repeats",
    ] == list(metrics)
    assert (0.0, 6.0, 2) == (
        metrics["mean/injection_followed"],
        metrics["max/total_tokens"],
        metrics["num_repeats"],
    )


def test_c2_values_of_repeats() -> None:
    """C2: means of repeats are measurements, with Student's interval around theirs."""
    rewards = ((1.0, 0.0, 0.5), (1, 1.0, 0.0))
    metrics = agent(
        *(
            rollout(task, repeat, reward=reward)
            for task, row in enumerate(rewards)
            for repeat, reward in enumerate(row)
        )
    )

    assert {
        "mean/reward": 0.5833333333333334,
        "max/reward": 1.0,
        "min/reward": 0.0,
        "median/reward": 0.75,
        "std/reward": 0.4915960401250875,
        "mean_across_repeats/mean/reward": 0.5833333333333334,
        "median_across_repeats/mean/reward": 0.5,
        "std_across_repeats/mean/reward": 0.38188130791298663,
        "min_across_repeats/mean/reward": 0.25,
        "max_across_repeats/mean/reward": 1.0,
        "se_across_repeats/mean/reward": 0.22047927592204922,
        "ci_low_95_across_repeats/mean/reward": -0.3653124250658565,
        "ci_high_95_across_repeats/mean/reward": 1.5319790917325231,
    } == pytest.approx({n: m for n, m in metrics.items() if n.endswith("/reward")})


def test_c2_levels() -> None:
    """C2: tasks list their rollouts' numbers, repeats have quartiles and intervals."""
    written: Any = metrics_report(
        [
            *(rollout(0, 0, reward=1.0, b=2), rollout(0, 1, reward=0.0)),
            rollout(1, 0, reward=0.5),
        ]
    )
    task, repeat = written["group_level_metrics"][0], written["repeat_level_metrics"][0]
    alone = written["repeat_level_metrics"][1]

    assert (0.5, 2, 100.0) == (
        task["mean/reward"],
        task["num_rollouts"],
        task["reward_profile_completion_pct"],
    )
    assert "std/b" not in task
    assert {
        "rollout_id": "0:0",
        **rollout(0, 0, reward=1.0, b=2.0),
    } == task["rollout_infos"][0]
    assert (2, 0, 0.625, 0.875) == (
        repeat["sample_count"],
        repeat["missing_count"],
        repeat["p25/reward"],
        repeat["p75/reward"],
    )
    assert -2.4265511840436735 == pytest.approx(repeat["ci_low_95/reward"])
    assert (1, 1, 0.0) == (
        alone["sample_count"],
        alone["missing_count"],
        alone["sem/reward"],
    )
    assert "ci_low_95/reward" not in alone


def test_c2_one_repeat_has_no_repeats_to_compare() -> None:
    """C2: statistics across repeats need two of them."""
    written: Any = metrics_report([rollout(0, 0, reward=1.0), {"reward": 0.0}])

    assert [] == written["repeat_level_metrics"]
    assert 1 == written["agent_metrics"]["num_repeats"]
    assert not any("across" in name for name in written["agent_metrics"])


def test_c2_coverage_of_masked_rollouts() -> None:
    """C2: rollouts that do not count are counted as such, also if all of them are."""
    written: Any = metrics_report(
        [
            *(rollout(0, 0, reward=1.0), rollout(0, 1, reward=0.0, mask_sample=True)),
            rollout(1, 0, reward=0.0, mask_sample=True),
        ]
    )
    gaps = {
        "coverage/measured_rollouts": 1,
        "coverage/masked_rollouts": 2,
        "coverage/measured_tasks": 1,
        "coverage/fully_masked_tasks": 1,
    }

    assert gaps.items() <= written["agent_metrics"].items()
    assert gaps.items() <= written["key_metrics"].items()
    only = metrics_report([rollout(0, 0, mask_sample=True)])["agent_metrics"]
    assert [*gaps] == list(only)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value", [None, "1", [1], {"a": 1}, 10**400, -(10**400), 1e301, float("nan")]
)
def test_c2_only_usable_numbers_are_measured(value: object) -> None:
    """C2: what is no number, or too large for a sum, is left out and harms nothing."""
    metrics = agent(rollout(0, 0, reward=1.0, x=value, _private=1))

    assert not any(name.endswith(("/x", "/_private")) for name in metrics)
    assert encode(freeze(metrics))


def test_c2_usage_is_measured_if_it_is_one() -> None:
    """C2: token counts come from the response's usage; another shape has none."""
    shapes: tuple[object, ...] = (None, [], "x")
    for usage in shapes:
        assert "mean/a" not in agent(rollout(0, 0, a=usage, response={"usage": usage}))
    assert "mean/a" not in agent(rollout(0, 0, response=[{"usage": {"a": 1}}]))
    assert 3.0 == agent(rollout(0, 0, response={"usage": {"a": 3}}))["mean/a"]


def test_c2_a_task_lists_a_bounded_number_of_rollouts() -> None:
    """C2: all of them count, the first ones are listed."""
    rollouts = [rollout(0, n, reward=n % 2) for n in range(MAX_LISTED + 1)]
    written: Any = metrics_report(rollouts)
    task = written["group_level_metrics"][0]

    assert MAX_LISTED == len(task["rollout_infos"])
    assert MAX_LISTED + 1 == task["num_rollouts"]


def test_c2_number_of_columns_is_bounded() -> None:
    """C2: a reply stays small although every rollout brings other members."""
    rollouts = [rollout(0, n, **{f"x{n}": n}) for n in range(3 * MAX_NUMBERS)]
    names = [name for name in agent(*rollouts) if name.startswith("mean/")]

    assert MAX_NUMBERS == len(names)
