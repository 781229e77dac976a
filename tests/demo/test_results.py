"""The demo's result rows: all eighty replay without divergence and score the same."""

from __future__ import annotations

import json

from collections.abc import Callable

import pytest

from ipistate.demo.plan import DemoRollout
from ipistate.demo.play import Recording
from ipistate.kernel.codec import encode
from ipistate.scoring import TaskIndex, replay_rollout, rescore


pytestmark = pytest.mark.once


@pytest.fixture
def rows(
    rollouts: tuple[DemoRollout, ...], recorded: Callable[..., Recording]
) -> list[bytes]:
    """Return the result rows of the demo's own plan, without a server."""
    return [encode(recorded(one).row) for one in rollouts]


def test_all_rollouts_replay_and_score_the_same(rows: list[bytes]) -> None:
    """No reply diverges, no call is refused, and every verdict is the stored one."""
    nowhere = TaskIndex()
    again = [replay_rollout(1, row, nowhere) for row in rows]

    assert [("same", 0)] * 80 == [(one.status, one.renamed) for one in again]
    assert all(one.equal == one.calls for one in again)
    assert not [call for one in again for call in one.refused()]
    assert ["same"] * 80 == [rescore(1, row, nowhere).status for row in rows]


def test_every_tampered_reply_is_found_at_its_call(rows: list[bytes]) -> None:
    """Whichever reply of the first rollouts is changed, it is that call that differs."""
    for row in rows[:8]:
        items = json.loads(row)["response"]["output"]
        replies = [i for i, one in enumerate(items) if "output" in one]
        for number, position in enumerate(replies):
            changed = json.loads(row)
            item = changed["response"]["output"][position]
            item["output"] = item["output"][:-2] + '!"}'
            line = json.dumps(changed).encode()
            again = replay_rollout(1, line, TaskIndex())

            assert ("different", number) == (again.status, again.calls)
