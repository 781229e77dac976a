"""Bodies of control calls: closed, strict, bounded (section 2.3)."""

from __future__ import annotations

from typing import Any

import pytest

from ipistate.errors import SchemaError
from ipistate.kernel.schema import structure
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.operations import (
    MAX_IDS,
    OPERATIONS,
    Call,
    CommitBody,
    ForgetBody,
    PrepareBody,
    RestoreBody,
    RetireBody,
)


BASE = {"checkpoint_id": "step-120", "deadline_ts": 1790000030.0}


def codes(document: dict[str, Any], body: type[Call]) -> set[str]:
    """Return the codes of all problems of a body."""
    with pytest.raises(SchemaError) as caught:
        structure(document, body)
    return {problem.code for problem in caught.value.problems}


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_body_names_its_checkpoint_and_deadline(name: str) -> None:
    """The two members of the base are required in each call."""
    directory = {"checkpoint_dir": "/d", "episode_ids": []}
    extras: dict[str, dict[str, Any]] = {
        "commit": directory,
        "restore": directory,
        "retire": {"episode_ids": [{"rollout_id": "ipi-7"}]},
        "forget": {"rollout_ids": ["ipi-7"]},
    }
    extra = extras.get(name, {})

    assert structure(BASE | extra, OPERATIONS[name]).checkpoint_id == "step-120"
    assert codes(extra, OPERATIONS[name]) == {"missing_member"}


@pytest.mark.parametrize("checkpoint_id", ["a", "A-1.b_c", "0", "x" * 128])
def test_checkpoint_ids_are_safe_names(checkpoint_id: str) -> None:
    """Letters, digits, dot, underscore and hyphen, at most 128 of them."""
    body = structure(BASE | {"checkpoint_id": checkpoint_id}, PrepareBody)

    assert checkpoint_id == body.checkpoint_id


@pytest.mark.parametrize(
    "checkpoint_id", ["", "../x", "a/b", "..", "x" * 129, "c\n", "c\0", "-x", "é"]
)
def test_b50_unsafe_checkpoint_ids_are_refused(checkpoint_id: str) -> None:
    """No id can be a path, end in a newline or grow without bound."""
    document = BASE | {"checkpoint_id": checkpoint_id}

    assert {"invalid_checkpoint_id"} == codes(document, PrepareBody)


@pytest.mark.parametrize("deadline", [0, -1, 1790000030, 1e300, 1.5])
def test_deadlines_are_finite_numbers(deadline: float) -> None:
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
def test_odd_deadlines_are_refused(deadline: float | str | None, code: str) -> None:
    """What is not a finite number is refused, not guessed."""
    assert {code} == codes(BASE | {"deadline_ts": deadline}, PrepareBody)


@pytest.mark.parametrize("members", [{}, {"episode_ids": None}])
def test_a_commit_without_a_scope_exports_everything(members: dict[str, None]) -> None:
    """Absent and null mean the same; an empty scope is another thing."""
    commit = BASE | {"checkpoint_dir": "/d"}

    assert structure(commit | members, CommitBody).episode_ids is None
    assert () == structure(commit | {"episode_ids": []}, CommitBody).episode_ids


@pytest.mark.parametrize("stop", [True, False])
def test_a_commit_accepts_stop(stop: bool) -> None:
    """Earlier coordinators send it on every commit."""
    document = BASE | {"checkpoint_dir": "/d", "stop": stop}

    assert stop == structure(document, CommitBody).stop


def test_episodes_are_read() -> None:
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
def test_restore_bodies_are_strict(members: dict[str, Any], expected: set[str]) -> None:
    """A restore needs a directory and a scope, and nothing else."""
    document = BASE | {"checkpoint_dir": "/d", "episode_ids": []}

    assert expected == codes(document | members, RestoreBody)


@pytest.mark.parametrize("rollouts", [["../x", "", "é", "\udc80"], ["ipi-7"] * 3])
def test_rollouts_to_forget_are_any_strings(rollouts: list[str]) -> None:
    """What is unknown is fine, so nothing is checked but the type."""
    body = structure(BASE | {"rollout_ids": rollouts}, ForgetBody)

    assert (*rollouts,) == body.rollout_ids


@pytest.mark.parametrize(
    ("members", "body"),
    [
        ({"rollout_ids": []}, ForgetBody),
        ({"episode_ids": []}, RetireBody),
    ],
)
def test_retire_and_forget_name_something(
    members: dict[str, Any], body: type[Call]
) -> None:
    """An empty list is a mistake."""
    assert {"missing_ids"} == codes(BASE | members, body)


@pytest.mark.parametrize(
    ("body", "extra"),
    [
        (CommitBody, {"checkpoint_dir": "/d"}),
        (RestoreBody, {"checkpoint_dir": "/d"}),
        (RetireBody, {}),
    ],
)
def test_a_call_names_a_bounded_number_of_episodes(
    body: type[Call], extra: dict[str, str]
) -> None:
    """Up to the limit, which is far above what one server holds."""
    episodes = [{"rollout_id": "r"}] * MAX_IDS

    assert MAX_IDS == len(
        structure(BASE | extra | {"episode_ids": episodes}, body).episode_ids  # type: ignore[attr-defined]
    )
    assert {"too_many_ids"} == codes(
        BASE | extra | {"episode_ids": [*episodes, {"rollout_id": "r"}]}, body
    )


def test_a_forget_names_a_bounded_number_of_rollouts() -> None:
    """The same limit as for episodes."""
    rollouts = ["r"] * (MAX_IDS + 1)

    assert {"too_many_ids"} == codes(BASE | {"rollout_ids": rollouts}, ForgetBody)


def test_b29_misspelt_members_of_a_call_are_named() -> None:
    """Control bodies are closed like every record."""
    assert {"unknown_member"} == codes(BASE | {"deadline": 3}, PrepareBody)


@pytest.mark.parametrize(
    ("body", "members", "path"),
    [
        (PrepareBody, {"checkpoint_id": ""}, "$.checkpoint_id"),
        (PrepareBody, {"deadline_ts": float("inf")}, "$.deadline_ts"),
        (CommitBody, {"checkpoint_dir": ""}, "$.checkpoint_dir"),
        (RetireBody, {"episode_ids": []}, "$.episode_ids"),
        (
            RetireBody,
            {"episode_ids": [{"rollout_id": "x"}, {"rollout_id": "-"}]},
            "$.episode_ids[1].rollout_id",
        ),
        (
            RetireBody,
            {"episode_ids": [{"rollout_id": "x", "attempt": -1}]},
            "$.episode_ids[0].attempt",
        ),
        (ForgetBody, {"rollout_ids": []}, "$.rollout_ids"),
    ],
)
def test_what_a_rule_refuses_is_named_by_its_path(
    body: type[Call], members: dict[str, Any], path: str
) -> None:
    """A member of the right type but with an odd value is found as easily."""
    with pytest.raises(SchemaError) as caught:
        structure(BASE | members, body)

    assert path == caught.value.path
