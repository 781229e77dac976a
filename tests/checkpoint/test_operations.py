"""Bodies of control calls: closed, strict, bounded (section 2.3)."""

import pytest

from ipistate.checkpoint.episode import EpisodeId
from ipistate.checkpoint.operations import (
    OPERATIONS,
    CommitBody,
    PrepareBody,
    RestoreBody,
)
from ipistate.errors import SchemaError
from ipistate.schema import structure


BASE = {"checkpoint_id": "step-120", "deadline_ts": 1790000030.0}


def codes(document, body):
    """Return the codes of all problems of a body."""
    with pytest.raises(SchemaError) as caught:
        structure(document, body)
    return {problem.code for problem in caught.value.problems}


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_body_names_its_checkpoint_and_deadline(name):
    """The two members of the base are required in each call."""
    directory = {"checkpoint_dir": "/d", "episode_ids": []}
    extra = directory if name in {"commit", "restore"} else {}

    assert structure(BASE | extra, OPERATIONS[name]).checkpoint_id == "step-120"
    assert codes(extra, OPERATIONS[name]) == {"missing_member"}


@pytest.mark.parametrize("checkpoint_id", ["a", "A-1.b_c", "0", "x" * 128])
def test_checkpoint_ids_are_safe_names(checkpoint_id):
    """Letters, digits, dot, underscore and hyphen, at most 128 of them."""
    body = structure(BASE | {"checkpoint_id": checkpoint_id}, PrepareBody)

    assert checkpoint_id == body.checkpoint_id


@pytest.mark.parametrize(
    "checkpoint_id", ["", "../x", "a/b", "..", "x" * 129, "c\n", "c\0", "-x", "é"]
)
def test_b50_unsafe_checkpoint_ids_are_refused(checkpoint_id):
    """No id can be a path, end in a newline or grow without bound."""
    document = BASE | {"checkpoint_id": checkpoint_id}

    assert {"invalid_checkpoint_id"} == codes(document, PrepareBody)


@pytest.mark.parametrize("deadline", [0, -1, 1790000030, 1e300, 1.5])
def test_deadlines_are_finite_numbers(deadline):
    """Integers and floats are numbers; the past is a legal deadline."""
    assert (
        deadline == structure(BASE | {"deadline_ts": deadline}, PrepareBody).deadline_ts
    )


@pytest.mark.parametrize(
    ("deadline", "code"),
    [
        (float("nan"), "invalid_deadline"),
        (float("inf"), "invalid_deadline"),
        (10**400, "invalid_deadline"),
        ("1790000030", "wrong_type"),
        (True, "wrong_type"),
        (None, "wrong_type"),
    ],
)
def test_odd_deadlines_are_refused(deadline, code):
    """What is not a finite number is refused, not guessed."""
    assert {code} == codes(BASE | {"deadline_ts": deadline}, PrepareBody)


@pytest.mark.parametrize("members", [{}, {"episode_ids": None}])
def test_a_commit_without_a_scope_exports_everything(members):
    """Absent and null mean the same; an empty scope is another thing."""
    commit = BASE | {"checkpoint_dir": "/d"}

    assert structure(commit | members, CommitBody).episode_ids is None
    assert () == structure(commit | {"episode_ids": []}, CommitBody).episode_ids


@pytest.mark.parametrize("stop", [True, False])
def test_a_commit_accepts_stop(stop):
    """Earlier coordinators send it on every commit."""
    document = BASE | {"checkpoint_dir": "/d", "stop": stop}

    assert stop == structure(document, CommitBody).stop


def test_episodes_are_read():
    """The attempt may be left out."""
    document = {"checkpoint_dir": "/d", "episode_ids": [{"rollout_id": "ipi-7"}]}

    assert (EpisodeId("ipi-7"),) == structure(BASE | document, RestoreBody).episode_ids


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"checkpoint_dir": ""}, {"invalid_directory"}),
        ({"checkpoint_dir": None}, {"wrong_type"}),
        ({"episode_ids": None}, {"wrong_type"}),
        ({"episode_ids": [{"rollout_id": "x-a1"}]}, {"invalid_rollout_id"}),
        ({"episode_ids": ["x"]}, {"wrong_type"}),
        ({"stop": False}, {"unknown_member"}),
    ],
)
def test_restore_bodies_are_strict(members, expected):
    """A restore needs a directory and a scope, and nothing else."""
    document = BASE | {"checkpoint_dir": "/d", "episode_ids": []}

    assert expected == codes(document | members, RestoreBody)


def test_b29_misspelt_members_of_a_call_are_named():
    """Control bodies are closed like every record."""
    assert {"unknown_member"} == codes(BASE | {"deadline": 3}, PrepareBody)
