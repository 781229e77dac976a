"""What ``/run`` asks for: native bodies, task digests, and the episode of a flat row."""

from __future__ import annotations

import json

from hashlib import sha256
from typing import Any

import pytest

from hypothesis import given

from ipistate.errors import SchemaError
from ipistate.kernel import MAX_DEPTH, JsonObject, structure
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.steps.tasks import RunBody, RunTask, episode_of
from ipistate.testing import json_objects


TASK: dict[str, Any] = {
    "task_id": {"taskset": "ipi:example", "task_id": "clinic-1"},
    "task_input": {
        "responses_create_params": {"input": [{"role": "user", "content": "..."}]},
        "task_data": {},
    },
}
BODY = {"episode_id": {"rollout_id": "ipi-7", "attempt": 1}, "task": TASK}


def test_the_body_of_the_specification() -> None:
    """Episode, task and its parts."""
    body = structure(BODY, RunBody)

    assert body.episode_id == EpisodeId("ipi-7", 1)
    assert body.task.task_id.task_id == "clinic-1"
    assert body.task.digest == (
        "6f492466dd192fb9b0312aba5dd7eeff7106c6fbf8bdd6e4b8715b5f73f61908"
    )


DOCUMENTS = json_objects(max_depth=MAX_DEPTH - 3)


@given(DOCUMENTS, DOCUMENTS, DOCUMENTS)
def test_the_digest_is_of_the_whole_task_in_sorted_order(
    params: JsonObject, data: JsonObject, extra: JsonObject
) -> None:
    """Members that are not known here count; the order of members does not."""
    given_input = {"x": extra, "task_data": data, "responses_create_params": params}
    document = {"more": extra, "task_input": given_input, "task_id": TASK["task_id"]}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))

    digest = structure(document, RunTask).digest
    assert sha256(text.encode()).hexdigest() == digest


def test_another_task_has_another_digest() -> None:
    """Numbers of another type, and truth, are not the same."""
    digests = {
        structure({**TASK, "value": value}, RunTask).digest
        for value in [1, 1.0, True, "1", None, [], {}]
    }

    assert len(digests) == 7


@pytest.mark.parametrize(
    ("changed", "code", "path"),
    [
        ({"task": None}, "wrong_type", "$.task"),
        ({"episode_id": "ipi-7"}, "wrong_type", "$.episode_id"),
        (
            {"episode_id": {"rollout_id": "x-a1"}},
            "invalid_rollout_id",
            "$.episode_id.rollout_id",
        ),
        ({"row": {}}, "unknown_member", "$.row"),
        ({"task": {**TASK, "task_id": {}}}, "missing_member", "$.task.task_id.taskset"),
        (
            {"task": {**TASK, "task_input": {"task_data": {}}}},
            "missing_member",
            "$.task.task_input.responses_create_params",
        ),
    ],
)
def test_bad_bodies(changed: dict[str, Any], code: str, path: str) -> None:
    """Each has a code and the path of what is wrong."""
    with pytest.raises(SchemaError) as caught:
        structure({**BODY, **changed}, RunBody)

    assert (code, path) == (caught.value.code, caught.value.path)


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({"_ng_rollout_id": "ipi-7"}, "ipi-7"),
        ({"_ng_rollout_id": "ipi-7", "_ng_attempt_index": 0}, "ipi-7"),
        ({"_ng_rollout_id": "ipi-7", "_ng_attempt_index": 2}, "ipi-7-a2"),
        ({"_ng_rollout_id": "ipi-7-a3"}, "ipi-7-a3"),
        ({"_ng_task_index": 3, "_ng_rollout_index": 0}, "3-0"),
        (
            {"_ng_task_index": 3, "_ng_rollout_index": 1, "_ng_attempt_index": 1},
            "3-1-a1",
        ),
    ],
)
def test_a_row_names_its_episode(row: dict[str, Any], key: str) -> None:
    """By an id, or by the indices of task and rollout."""
    assert key == episode_of(JsonObject(row)).capture_key


@pytest.mark.parametrize(
    ("row", "code", "path"),
    [
        ({}, "rollout_id_required", "$._ng_task_index"),
        ({"_ng_task_index": 1}, "rollout_id_required", "$._ng_rollout_index"),
        (
            {"_ng_task_index": True, "_ng_rollout_index": 0},
            "rollout_id_required",
            "$._ng_task_index",
        ),
        (
            {"_ng_task_index": 0, "_ng_rollout_index": -1},
            "rollout_id_required",
            "$._ng_rollout_index",
        ),
        ({"_ng_rollout_id": 7}, "invalid_rollout_id", "$._ng_rollout_id"),
        ({"_ng_rollout_id": "a/b"}, "invalid_rollout_id", "$._ng_rollout_id"),
        (
            {"_ng_rollout_id": "r-a1", "_ng_attempt_index": 2},
            "invalid_rollout_id",
            "$._ng_rollout_id",
        ),
        (
            {"_ng_rollout_id": "r", "_ng_attempt_index": "1"},
            "invalid_attempt",
            "$._ng_attempt_index",
        ),
        (
            {"_ng_rollout_id": "r", "_ng_attempt_index": -1},
            "invalid_attempt",
            "$._ng_attempt_index",
        ),
    ],
)
def test_rows_that_name_no_episode(row: dict[str, Any], code: str, path: str) -> None:
    """Each has a code and the path of what is wrong."""
    with pytest.raises(SchemaError) as caught:
        episode_of(JsonObject(row))

    assert (code, path) == (caught.value.code, caught.value.path)
