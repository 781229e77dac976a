"""What is left to run follows from what is there."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ipistate.protocol.episode import EpisodeId
from ipistate.rollouts.rollout import Names, Place, all_places, planned


NAMES = Names("0a1b2c3d4e")
PLACES = st.builds(Place, st.integers(0, 3), st.integers(0, 2))


@given(st.sets(PLACES), st.dictionaries(PLACES, st.integers(0, 5)), st.sets(PLACES))
def test_every_rollout_without_row_is_run_once(done, begun, held):
    """Each place is done, goes on from a checkpoint or starts, and never twice."""
    restored = {
        place: EpisodeId(NAMES.rollout_id(place), begun.get(place, 0) + 1)
        for place in held - done
    }
    left = list(
        planned(all_places(4, 3), NAMES, done=done, begun=begun, restored=restored)
    )

    assert sorted(set(all_places(4, 3)) - done) == sorted(one.place for one in left)
    assert restored == {one.place: one.episode for one in left if one.continues}


@given(PLACES, st.integers(0, 5))
def test_an_attempt_is_never_made_twice(place, attempt):
    """A rollout that has begun starts over as the next attempt."""
    (left,) = planned([place], NAMES, done=(), begun={place: attempt}, restored={})

    assert attempt + 1 == left.episode.attempt


@given(PLACES)
def test_names_can_be_read(place):
    """A rollout's name says its place, to its own run only."""
    name = NAMES.rollout_id(place)

    assert place == NAMES.place(name)
    assert Names("ffffffffff").place(name) is None
    assert EpisodeId(name).capture_key == name


def test_other_names_have_no_place():
    """A name that is not of this form is no rollout of the run."""
    assert [None] * 3 == [NAMES.place(one) for one in ("", "0-0", "0a1b2c3d4e-x-0")]
