"""Episode ids and capture keys (docs/reference/control-plane.md, section 1.2)."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate.errors import SchemaError
from ipistate.kernel.schema import structure
from ipistate.protocol.episode import EpisodeId


EXAMPLES = [
    ({"rollout_id": "ipi-7"}, "ipi-7"),
    ({"rollout_id": "ipi-7", "attempt": 1}, "ipi-7-a1"),
    ({"rollout_id": "t3-r0.b", "attempt": 12}, "t3-r0.b-a12"),
    ({"rollout_id": "x-a0"}, "x-a0"),
    ({"rollout_id": "x-a0", "attempt": 4}, "x-a0-a4"),
    ({"rollout_id": "x-a01"}, "x-a01"),
]

rollout_ids = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,12}\Z").filter(
    lambda text: structured({"rollout_id": text}) is not None
)


def structured(document: dict[str, str]) -> EpisodeId | None:
    """Read an episode, or return None."""
    try:
        return structure(document, EpisodeId)
    except SchemaError:
        return None


@pytest.mark.parametrize(("document", "key"), EXAMPLES)
def test_examples_of_the_specification(
    document: dict[str, int | str], key: str
) -> None:
    """An episode's key is the rollout id, and the attempt if there is one."""
    episode = structure(document, EpisodeId)

    assert key == episode.capture_key
    assert episode == EpisodeId.from_capture_key(key)


@given(rollout_ids, st.integers(0, 10**20))
def test_the_capture_key_is_one_to_one(rollout_id: str, attempt: int) -> None:
    """Reading a key gives back the episode it was written for."""
    episode = EpisodeId(rollout_id, attempt)

    assert episode == EpisodeId.from_capture_key(episode.capture_key)


@given(st.text(max_size=12))
def test_a_key_is_read_exactly_or_refused(key: str) -> None:
    """No key stands for an episode that would be written differently."""
    try:
        episode = EpisodeId.from_capture_key(key)
    except SchemaError:
        return

    assert key == episode.capture_key


@pytest.mark.parametrize(
    "key",
    [
        "r-a1-a2",
        "",
        "-a1",
        ".x",
        "a/b",
        "x\n",
        "x\u0660",
        "-",
        "x y",
        "x-a" + "9" * 5000,
    ],
)
def test_malformed_keys_are_refused(key: str) -> None:
    """A key without a legal parse is an ``invalid_rollout_id``."""
    with pytest.raises(SchemaError) as caught:
        EpisodeId.from_capture_key(key)

    assert caught.value.code == "invalid_rollout_id"


def test_the_next_attempt_keeps_the_rollout() -> None:
    """A continued episode is the next attempt of the same rollout."""
    assert EpisodeId("ipi-7", 3) == EpisodeId("ipi-7", 2).next_attempt


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"rollout_id": "x-a1"}, "invalid_rollout_id"),
        ({"rollout_id": ""}, "invalid_rollout_id"),
        ({"rollout_id": "x\n"}, "invalid_rollout_id"),
        ({"rollout_id": 7}, "wrong_type"),
        ({"rollout_id": "x", "attempt": -1}, "invalid_attempt"),
        ({"rollout_id": "x", "attempt": True}, "wrong_type"),
        ({"rollout_id": "x", "attempt": 1.0}, "wrong_type"),
        ({"rollout_id": "x", "attempt": "1"}, "wrong_type"),
        ({"rollout_id": "x", "attempt": None}, "wrong_type"),
        ({"attempt": 1}, "missing_member"),
        ({"rollout_id": "x", "attemp": 1}, "unknown_member"),
        (["x"], "wrong_type"),
    ],
)
def test_episodes_are_strict(document: dict[str, Any] | list[str], code: str) -> None:
    """Nothing is coerced and nothing unknown is accepted."""
    with pytest.raises(SchemaError) as caught:
        structure(document, EpisodeId)

    assert code == caught.value.code


@pytest.mark.parametrize("attempt", [True, -1, 1.0])
def test_the_constructor_is_strict_too(attempt: float) -> None:
    """An episode built in Python obeys the same rules."""
    with pytest.raises(ValueError, match="attempt"):
        EpisodeId("x", attempt)  # type: ignore[arg-type]


def test_an_episode_is_immutable_and_hashable() -> None:
    """Episodes are values: usable as keys, never changed."""
    episode = EpisodeId("x")

    assert {EpisodeId("x")} == {episode}
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        episode.attempt = 1  # type: ignore[misc]
