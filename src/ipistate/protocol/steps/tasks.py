"""What a ``/run`` request asks for: the native body, and the flat row of an agent."""

from __future__ import annotations

import json

from hashlib import sha256
from typing import Any, Final

import attrs

from ipistate.errors import SchemaError, json_path, preview
from ipistate.kernel import EMPTY_OBJECT, JsonObject
from ipistate.protocol.episode import EpisodeId


@attrs.frozen(kw_only=True)
class TaskIdentity:
    """Names a task in its set."""

    taskset: str
    task_id: str


@attrs.frozen(kw_only=True)
class TaskInput:
    """What the model is asked, and what the resources server starts from."""

    responses_create_params: JsonObject
    task_data: JsonObject
    extra: JsonObject = EMPTY_OBJECT


@attrs.frozen(kw_only=True)
class RunTask:
    """A task as a controller sends it; members that are not known here are kept."""

    task_id: TaskIdentity
    task_input: TaskInput
    extra: JsonObject = EMPTY_OBJECT

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the task's JSON with sorted keys, in hex.

        A restored episode is continued only with the task that it began with.
        """
        given = self.task_input
        asked, data = given.responses_create_params, given.task_data
        named = {"responses_create_params": asked, "task_data": data}
        # Plain objects around the parts, each of which may be as deep as a document.
        whole = {
            **self.extra,
            "task_id": attrs.asdict(self.task_id),
            "task_input": {**given.extra, **named},
        }
        text = json.dumps(whole, sort_keys=True, separators=(",", ":"))
        return sha256(text.encode("ascii")).hexdigest()


@attrs.frozen(kw_only=True)
class RunBody:
    """The native body of ``/run``; read it with ``structure``."""

    episode_id: EpisodeId
    task: RunTask


_ID: Final = "_ng_rollout_id"
_INDICES: Final = ("_ng_task_index", "_ng_rollout_index")
_ATTEMPT: Final = "_ng_attempt_index"


def episode_of(row: JsonObject) -> EpisodeId:
    """Return the episode that a flat row names (docs/reference/control-plane.md, section 1.6).

    Raises:
        SchemaError: ``rollout_id_required`` if it names none, ``invalid_rollout_id`` or
            ``invalid_attempt`` if it cannot be one.
    """
    rollout = row.get(_ID)
    if rollout is None:
        rollout = "-".join(_index(row, name) for name in _INDICES)
    if not isinstance(rollout, str):
        message = "a rollout id is a string"
        raise _invalid("invalid_rollout_id", message, _ID, rollout)
    attempt = row.get(_ATTEMPT, 0)
    if type(attempt) is not int or attempt < 0:
        message = "an attempt is an integer from 0"
        raise _invalid("invalid_attempt", message, _ATTEMPT, attempt)
    try:
        return EpisodeId.from_capture_key(rollout + (f"-a{attempt}" if attempt else ""))
    except SchemaError as error:
        raise _invalid(error.code, error.message, _ID, rollout) from None


def _index(row: JsonObject, name: str) -> str:
    index = row.get(name)
    if type(index) is not int or index < 0:
        message = (
            f"the row names no rollout: neither {_ID} nor {' and '.join(_INDICES)}"
        )
        raise _invalid("rollout_id_required", message, name, index)
    return str(index)


def _invalid(code: str, message: str, name: str, value: Any) -> SchemaError:
    return SchemaError(code, message, json_path([name]), preview(value))
