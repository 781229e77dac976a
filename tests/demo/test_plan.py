"""The plan: who plays what, and where each rollout is cut."""

from __future__ import annotations

from collections import Counter

import pytest

from ipistate.demo.plan import DemoRollout, plan
from ipistate.demo.scripts import builtin_scripts
from ipistate.generate import builtin


def test_eighty_rollouts(rollouts: tuple[DemoRollout, ...]) -> None:
    """Of 80 rollouts, 20 finish before the checkpoint, half of them careful ones."""
    finished = Counter(one.agent for one in rollouts if one.cut is None)

    assert {"careful": 10, "gullible": 10} == finished
    assert 80 == len({one.episode for one in rollouts})


def test_every_domain_plays_about_as_often(rollouts: tuple[DemoRollout, ...]) -> None:
    """Domains are dealt in turn, so none is played twice as often as another."""
    counts = Counter(one.domain for one in rollouts).values()

    assert len(counts) == 9
    assert max(counts) <= min(counts) + 2


def test_cuts_vary_and_leave_something_to_do(rollouts: tuple[DemoRollout, ...]) -> None:
    """A cut has a call before it; most have calls after it as well."""
    cuts = [(one.cut, len(one.calls)) for one in rollouts if one.cut is not None]

    assert all(0 < cut <= calls for cut, calls in cuts)
    assert {1, 2, 3, 4, 5} <= {cut for cut, _ in cuts}
    assert sum(cut < calls for cut, calls in cuts) >= 40


def test_indices_are_those_of_a_task_file(rollouts: tuple[DemoRollout, ...]) -> None:
    """Rollouts know their row's place in the file, and how many of it came before."""
    rows = builtin.rows()
    seen: Counter[str] = Counter()
    for one in rollouts:
        assert rows[one.place.task] == one.task
        assert seen[one.row] == one.place.repeat
        seen[one.row] += 1


@pytest.mark.parametrize("count", range(1, 12))
def test_small_plans_have_something_at_the_checkpoint(count: int) -> None:
    """However few rollouts there are, one is cut."""
    rollouts = plan(builtin_scripts(), count)

    assert count == len(rollouts)
    assert any(one.cut is not None for one in rollouts)


def test_nothing_to_play() -> None:
    """Without scripts there is no plan."""
    with pytest.raises(ValueError, match="no task rows"):
        plan([], 3)
