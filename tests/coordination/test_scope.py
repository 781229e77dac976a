"""Scopes and deadlines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ipistate.coordination.scope import (
    clean_up_deadline,
    continued,
    episodes_of,
    in_order,
    next_attempts,
    patience,
)
from ipistate.protocol.episode import EpisodeId


episodes = st.builds(EpisodeId, st.sampled_from(["r", "s", "t"]), st.integers(0, 12))
lists = st.lists(episodes, max_size=8)
times = st.floats(0, 1e10)


@given(lists, lists)
def test_restarts_are_left_out(named, restarts):
    """The scope is what was named without the restarts, in order, each once."""
    scope = continued(named, restarts)

    assert {*named} - {*restarts} == {*scope}
    assert [*dict.fromkeys(one for one in named if one in scope)] == [*scope]


@given(lists)
def test_everything_stays_everything(restarts):
    """No scope stays no scope, whatever restarts."""
    assert continued(None, restarts) is None


@given(lists)
def test_next_attempts(named):
    """A restored episode is the same rollout, one attempt later."""
    assert [(one.rollout_id, one.attempt + 1) for one in dict.fromkeys(named)] == [
        (one.rollout_id, one.attempt) for one in next_attempts(named)
    ]


@given(lists)
def test_in_order_sorts_numbers_as_numbers(named):
    """Attempt 10 stands behind attempt 9, and nothing twice."""
    assert sorted({(one.rollout_id, one.attempt) for one in named}) == [
        (one.rollout_id, one.attempt) for one in in_order(named)
    ]


@given(lists)
def test_capture_keys_are_read(named):
    """Keys give back the episodes."""
    assert tuple(named) == episodes_of([one.capture_key for one in named])


@given(times, times)
def test_patience_is_never_less_than_the_grace(deadline, now):
    """A call has max(deadline - now, 0) + 5 seconds (section 5.3)."""
    assert max(deadline - now, 0) + 5 == patience(deadline, now)


@given(times, times)
def test_clean_up_has_time(deadline, now):
    """The clean-up has max(deadline, now + 30) (section 5.5)."""
    assert max(deadline, now + 30) == clean_up_deadline(deadline, now)
