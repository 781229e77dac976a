"""Stored rollouts, one to a line, and the task row that each certainly belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, cast

import attrs

from ipistate.errors import SchemaError, preview
from ipistate.kernel import (
    JsonArray,
    JsonObject,
    JsonValue,
    adopt_members,
    decode_as,
    encode,
    trusted_array,
    trusted_object,
)
from ipistate.scoring.task import Task


if TYPE_CHECKING:
    from collections.abc import Iterable

UNKNOWN: Final = "unknown"
"""What stands for a label that a row does not have."""

Found: TypeAlias = "Task | str"
"""A task row, or the reason why there is none."""


def read_rollout(line: bytes) -> JsonObject:
    """Read a line of a file of rollouts.

    What was recorded may nest as deep as JSON may, so each member has the full depth to
    itself: a world in a row may be as deep as one by itself.

    Raises:
        DecodeError: The line is not acceptable JSON.
        SchemaError: It is not an object.
    """
    row = decode_as(line, adopt_members)
    if not isinstance(row, dict):
        message = "a rollout is an object"
        raise SchemaError("wrong_type", message, preview=preview(row))
    return trusted_object(cast("dict[str, JsonValue]", row))


def mask_of(rollout: JsonObject) -> str | None:
    """Say what failed, if a rollout is not to be counted.

    A rollout is masked by a truthy ``mask_sample``; ``failure_kind`` says what failed.
    """
    if not rollout.get("mask_sample"):
        return None
    kind = rollout.get("failure_kind")
    return kind if isinstance(kind, str) and kind else UNKNOWN


class TaskIndex:
    """Task rows by their prompt.

    A rollout belongs to a row for certain if their prompts are equal and no other row
    with that prompt differs in what matters; ``_ng_task_index`` may choose between
    rows of one prompt, but never by itself, because it depends on the file.

    Args:
        tasks: The rows.
        without: What is said of every rollout if there are no rows.
    """

    def __init__(
        self, tasks: Iterable[Task] = (), without: str = "no task rows were given"
    ) -> None:
        self._without = without
        self._by_prompt: dict[bytes, dict[int, Task]] = {}
        for index, task in enumerate(tasks):
            rows = self._by_prompt.setdefault(_prompt(task.responses_create_params), {})
            rows[index] = task

    def find(self, rollout: JsonObject) -> Found:
        """Find the row of a rollout, or say why there is none."""
        if not self._by_prompt:
            return self._without
        params = rollout.get("responses_create_params")
        rows = self._by_prompt.get(_prompt(params)) if params else None
        if not rows:
            return "no given task row has its prompt"
        index = rollout.get("_ng_task_index")
        if type(index) is int and index in rows:
            return rows[index]
        if len({_essence(task) for task in rows.values()}) > 1:
            return f"{len(rows)} different task rows have its prompt"
        return next(iter(rows.values()))


def _prompt(params: JsonValue) -> bytes:
    # Recorders add members such as "type": "message"; role and content are the prompt.
    given = params.get("input") if isinstance(params, JsonObject) else None
    if not isinstance(given, JsonArray):
        return encode(given)
    said = [
        trusted_array([message.get("role"), message.get("content")])
        if isinstance(message, JsonObject)
        else message
        for message in given
    ]
    return encode(trusted_array(said))


def _essence(task: Task) -> bytes:
    blank = attrs.evolve(task, domain=None, extra=JsonObject(), member_order=())
    return blank.to_json()


def with_injection(rollout: JsonObject, tasks: TaskIndex) -> JsonObject | str:
    """Return a rollout with its injection and required tools, or why it has none."""
    if "injection" in rollout:
        return rollout
    task = tasks.find(rollout)
    if isinstance(task, str):
        return f"it has no injection, and {task}"
    return trusted_object(
        {
            "injection": task.injection.to_document(),
            "required_tools": JsonArray(task.required_tools),
            **rollout,
        }
    )


def with_world(rollout: JsonObject, tasks: TaskIndex) -> JsonObject:
    """Return a rollout with the world of its task row, if it has none of its own."""
    if rollout.get("environment") is not None:
        return rollout
    task = tasks.find(rollout)
    if isinstance(task, str):
        return rollout
    return trusted_object({**rollout, "environment": task.environment.document})
