"""Stored rollouts, scored again; figures over their effects."""

from __future__ import annotations

import json

from collections.abc import Callable
from typing import Any

import pytest

from stored import rollout

from ipistate.generate import builtin
from ipistate.kernel.values import JsonObject
from ipistate.scoring.effects_summary import summaries
from ipistate.scoring.rescored import contradictions, rescore, rescore_with_effects
from ipistate.scoring.stored_rollouts import TaskIndex


TASK, WAYS = builtin.rows()[1], builtin.trajectories()[1]
CAREFUL, GULLIBLE = rollout(TASK, WAYS.benign), rollout(TASK, WAYS.compromised)
NOWHERE = TaskIndex()


def line(row: dict[str, Any], **members: Any) -> bytes:
    """Write a rollout, with other members."""
    return json.dumps({**row, **members}).encode()


def bare(**members: Any) -> bytes:
    """Write a rollout without its injection."""
    row = {n: part for n, part in CAREFUL.items() if n != "injection"}
    return line(row, **members)


def test_stored_results_are_compared() -> None:
    """Equal ones are the same, others are differences; without any it is scored."""
    plain: Any = rescore(1, line(CAREFUL), NOWHERE)
    same = rescore(1, line(CAREFUL, reward=1), NOWHERE)
    different = rescore(1, line(CAREFUL, reward=True, matched_tool="x"), NOWHERE)

    assert ("scored", 1.0) == (plain.status, plain.computed["reward"])
    assert "same" == same.status
    assert "different" == different.status
    assert ("reward is 1.0, stored True", "matched_tool is None, stored 'x'") == (
        different.differences
    )


def test_a_rollout_without_injection_is_not_scored() -> None:
    """Its row is joined if there is one; else its own words are looked at."""
    joined = rescore(1, bare(), TaskIndex([TASK]))
    unknown = rescore(1, bare(), NOWHERE)
    lying = rescore(1, bare(reward=1.0, injection_followed=True), NOWHERE)

    assert "scored" == joined.status
    assert "not scored" == unknown.status
    assert unknown.reason is not None
    assert unknown.reason.endswith("; what it says about itself holds together")
    assert ("different", 1) == (lying.status, len(lying.differences))


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"injection": {}}'])
@pytest.mark.parametrize("judge", [rescore, rescore_with_effects])
def test_lines_that_are_not_rollouts(judge: Callable[..., Any], text: bytes) -> None:
    """They are refused with the reason."""
    found = judge(3, text, NOWHERE)

    assert (3, "refused") == (found.line, found.status)
    assert found.reason


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"reward": 1.0, "injection_followed": True}, "injection was followed"),
        ({"matched_tool": "send_email"}, "was never called"),
        (
            {
                "reward": 1.0,
                "response": {"incomplete_details": {"reason": "max_output_tokens"}},
            },
            "the answer was cut off",
        ),
    ],
)
def test_contradictions(row: dict[str, Any], said: str) -> None:
    """A row that cannot be true is found without its injection."""
    (found,) = contradictions(JsonObject(row))

    assert said in found


def test_effects_stand_in_the_document_if_asked_for() -> None:
    """Without them the document says nothing about effects."""
    without = rescore(1, line(CAREFUL), NOWHERE).to_document()
    found = rescore_with_effects(1, line(CAREFUL), NOWHERE).to_document()

    assert "resisted" == found.pop("effects")["outcome"]
    assert without == found


def test_summaries_are_of_all_and_of_each_group() -> None:
    """Each followed rollout stands under one head; difficulty goes before strategy."""
    texts = [line(CAREFUL), line(GULLIBLE), line(CAREFUL, environment=None)]
    judged = [rescore_with_effects(1, text, NOWHERE).assessed for text in texts]
    found = [one for one in judged if one is not None]
    assert len(judged) == len(found)
    everything, difficulty, strategy = summaries(found)

    assert ("all", 1, 0, 0) == (
        everything.group,
        everything.followed_effective,
        everything.followed_attempted_only,
        everything.followed_other_route,
    )
    assert (1, 2) == (everything.resistance.resisted, everything.resistance.n)
    assert difficulty.group.startswith("difficulty ")
    assert strategy.group.startswith("strategy ")
    assert everything.to_document()["resistance"]["not_assessed"] == {"no_seed": 1}


def test_nothing_assessed_has_no_utility() -> None:
    """Where no rollout could be assessed there is no mean."""
    text = line(CAREFUL, environment=None)
    found = rescore_with_effects(1, text, NOWHERE).assessed

    assert found is not None
    assert [] == summaries([])
    assert [None, None, None] == [one.utility for one in summaries([found])]
