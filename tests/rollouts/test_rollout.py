"""What is left to run follows from what is there."""

from __future__ import annotations

import attrs

from hypothesis import assume, given
from hypothesis import strategies as st

from ipistate.agents.conversation import AgentState
from ipistate.errors import SchemaError
from ipistate.kernel.values import EMPTY_OBJECT
from ipistate.protocol.episode import MAX_SESSION_ID, EpisodeId, is_session_id
from ipistate.rollouts.attempt import session_name
from ipistate.rollouts.configuration import Configuration, Place, planned


RUN = Configuration(
    tasks_sha256="",
    tasks=4,
    num_repeats=3,
    max_steps=1,
    policy="told",
    policy_options=EMPTY_OBJECT,
    seed=0,
    effects=False,
)
PLACES = st.builds(Place, st.integers(0, 3), st.integers(0, 2))


@given(st.sets(PLACES), st.dictionaries(PLACES, st.integers(0, 5)), st.sets(PLACES))
def test_every_rollout_without_row_is_run_once(
    done: set[Place], begun: dict[Place, int], held: set[Place]
) -> None:
    """Each place is done, goes on from a checkpoint or starts, and never twice."""
    restored = {
        EpisodeId(RUN.rollout_id(place), begun.get(place, 0) + 1): AgentState()
        for place in held - done
    }
    left = list(planned(RUN, done=done, begun=begun, restored=restored))

    assert RUN.rollouts == len(set(RUN.places()))
    assert sorted(set(RUN.places()) - done) == sorted(one.place for one in left)
    assert restored == {one.episode: one.state for one in left if one.state is not None}
    assert all(one.place == RUN.place(one.episode.rollout_id) for one in left)


@given(PLACES, st.integers(0, 5))
def test_an_attempt_is_never_made_twice(place: Place, attempt: int) -> None:
    """A rollout that has begun starts over as the next attempt."""
    left = planned(RUN, done=(), begun={place: attempt}, restored={})

    assert {place: attempt + 1} == {
        one.place: one.episode.attempt for one in left if one.episode.attempt
    }


@given(PLACES)
def test_names_can_be_read(place: Place) -> None:
    """A rollout's name says its place, to its own run only."""
    name = RUN.rollout_id(place)

    assert place == RUN.place(name)
    assert attrs.evolve(RUN, seed=1).place(name) is None
    assert EpisodeId(name).capture_key == name


def test_other_names_have_no_place() -> None:
    """A name that is not of this form is no rollout of the run."""
    names = ("", "0-0", f"{RUN.name}-x-0")

    assert [None] * 3 == [RUN.place(one) for one in names]


KEYS = st.text("ab1-", min_size=1, max_size=120).map("r{}".format)


@given(KEYS, KEYS, st.integers(0, 20), st.integers(0, 20))
def test_session_names_are_short_and_differ(
    one: str, other: str, first: int, second: int
) -> None:
    """Each attempt has a session name of its own that the protocol accepts."""
    try:
        attempts = {EpisodeId(one, first), EpisodeId(other, second)}
    except SchemaError:
        assume(False)
    names = {session_name(attempt) for attempt in attempts}

    assert len(attempts) == len(names)
    assert all(map(is_session_id, names))


def test_long_names_with_one_beginning() -> None:
    """Two rollouts whose ids differ only behind the limit have two session names."""
    names = {session_name(EpisodeId("r" * MAX_SESSION_ID + end)) for end in "ab"}

    assert 2 == len(names)
    assert all(map(is_session_id, names))
