"""Stored rollouts, executed again and compared."""

from __future__ import annotations

import json

from typing import Any

import pytest

from stored import rollout

from ipistate.generate import builtin
from ipistate.scoring.replayed import ReplayTotals, replay_rollout
from ipistate.scoring.stored_rollouts import TaskIndex


TASK, WAYS = builtin.rows()[1], builtin.trajectories()[1]
NOWHERE = TaskIndex()


def again(row: dict[str, Any], tasks: TaskIndex = NOWHERE) -> Any:
    """Execute a rollout again, as line 7 of a file."""
    return replay_rollout(7, json.dumps(row).encode(), tasks)


def without_world(row: dict[str, Any]) -> dict[str, Any]:
    """Return a rollout that was stored without its environment."""
    return {name: part for name, part in row.items() if name != "environment"}


def test_a_true_recording_is_the_same() -> None:
    """Every call has its recorded reply, and each one that writes has a change."""
    found = again(rollout(TASK, WAYS.compromised))
    changes = [*found.changes()]

    assert ("same", None, 7) == (found.status, found.divergence, found.line)
    assert len(WAYS.compromised) == found.calls == found.equal == len(changes)
    assert any(one.diff for one in changes)
    assert [] == [*found.refused()]


def test_a_changed_reply_is_found_at_its_call() -> None:
    """The first reply that differs ends the comparison, and is in the document."""
    row = rollout(TASK, WAYS.benign)
    row["response"]["output"][1]["output"] = '{"output": "something else"}'
    found = again(row)
    document = found.to_document()

    assert ("different", 0, 0) == (found.status, found.calls, found.equal)
    assert WAYS.benign[0].name == document["divergence"]["tool"]
    assert "changes" not in document
    assert 1 == len(found.to_document_with_changes()["changes"])


def test_a_call_without_object_is_not_executed() -> None:
    """It is listed with its number and code, and the next one goes on."""
    row = rollout(TASK, WAYS.benign, replies=False)
    row["response"]["output"][0]["arguments"] = "[]"
    found = again(row)
    (refused,) = found.refused()

    assert ("same", 0) == (found.status, refused.call)
    assert len(WAYS.benign) - 1 == len([*found.changes()])


def test_the_world_may_come_from_a_task_row() -> None:
    """Without a world, nothing is executed, and the reason is told."""
    row = without_world(rollout(TASK, WAYS.benign))

    assert "same" == again(row, TaskIndex([TASK])).status
    assert "no world" == again(row).status
    assert again(row).reason.startswith("it carries no environment, and ")


@pytest.mark.parametrize("line", [b"{", b"[]", b"{}"])
def test_lines_that_are_not_rollouts(line: bytes) -> None:
    """What is no rollout, or has no trace, is refused with a reason."""
    found = replay_rollout(1, line, NOWHERE)

    assert "refused" == found.status
    assert found.reason


def test_totals_count_lines_on_their_way() -> None:
    """Each line is given on as it was counted."""
    good, bad = rollout(TASK, WAYS.benign), rollout(TASK, WAYS.benign)
    bad["response"]["output"][0]["arguments"] = "1"
    bad["response"]["output"] = bad["response"]["output"][:2]
    totals = ReplayTotals()
    lines = [again(good), again(without_world(good)), again(bad)]

    assert lines == [*totals.counting(lines)]
    assert {"same": 2, "no world": 1} == totals.statuses
    assert sum(one.equal for one in lines) == totals.equal
    assert (1, 0) == (totals.refused, totals.renamed)


def test_a9_calls_that_were_cut_off_are_not_executed() -> None:
    """A9: of a reply without an end, calls that nothing answered are listed, not made."""
    row = rollout(TASK, WAYS.compromised, reason="max_output_tokens")
    del row["response"]["output"][-1]
    found = again(row)
    (refused,) = found.refused()

    assert ("same", "cut_off") == (found.status, refused.code)
    assert len(WAYS.compromised) - 1 == refused.call == len([*found.changes()])


def test_a8_a_trace_that_cannot_be_read_is_refused() -> None:
    """A8: without one of its calls a rollout cannot be executed again."""
    row = rollout(TASK, WAYS.benign)
    row["response"]["output"][0]["type"] = "call"
    found = again(row)

    assert ("refused", 0) == (found.status, found.calls)
    assert "$.response.output[1]: " in found.reason
    assert "[unreadable_trace]" in found.reason
