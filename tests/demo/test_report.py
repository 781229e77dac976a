"""The comparison: one byte that differs is seen, and so is whatever was lost."""

from __future__ import annotations

import json

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from ipistate.demo.outcome import compare
from ipistate.demo.plan import DemoRollout
from ipistate.demo.play import Recording
from ipistate.demo.report import Crash, DemoReport
from ipistate.kernel.codec import encode
from ipistate.kernel.environment import Environment
from ipistate.kernel.values import JsonObject, freeze


@pytest.fixture
def cut(rollouts: tuple[DemoRollout, ...]) -> DemoRollout:
    """Return a gullible rollout that is cut in the middle."""
    return next(one for one in rollouts if one.cut == 3 and one.agent == "gullible")


@pytest.fixture
def report(
    cut: DemoRollout,
    recorded: Callable[..., Recording],
    world_at_cut: Callable[..., Environment],
) -> Callable[..., DemoReport]:
    """Return a function that reports on one rollout, some evidence changed."""

    def made(left: int = 0, **changed: tuple[str, ...]) -> DemoReport:
        recording = recorded(cut)
        key = cut.episode.rollout_id
        evidence = {"committed": (key,), "restored": (f"{key}-a1",), **changed}
        crash = Crash(pid=1, status=-9, manifest={}, sessions=1, **evidence)
        outcome = compare(cut, recording, recording, world_at_cut(cut))
        return DemoReport(
            outcomes=(outcome,),
            crashes=(crash,),
            fresh_pid=2,
            sessions_left=left,
            seconds=1.0,
        )

    return made


def test_equal_recordings_are_identical(
    cut: DemoRollout,
    recorded: Callable[..., Recording],
    world_at_cut: Callable[..., Environment],
) -> None:
    """Equal bytes on both sides and the world that the calls give: identical."""
    outcome = compare(cut, recorded(cut), recorded(cut), world_at_cut(cut))

    assert outcome.difference is None
    assert (True, True, 0.0) == (
        outcome.continued,
        outcome.injection_followed,
        outcome.reward,
    )


def test_one_byte_of_a_reply(
    cut: DemoRollout,
    recorded: Callable[..., Recording],
    world_at_cut: Callable[..., Environment],
) -> None:
    """A reply that differs by one space is named."""
    good = recorded(cut)
    replies = (*good.replies[:-1], good.replies[-1] + b" ")
    other = attrs.evolve(good, replies=replies)
    outcome = compare(cut, good, other, world_at_cut(cut))

    assert f"reply {len(replies) - 1} differs" == outcome.difference


def test_missing_reply(
    cut: DemoRollout,
    recorded: Callable[..., Recording],
    world_at_cut: Callable[..., Environment],
) -> None:
    """A reply that only one side has is seen."""
    good = recorded(cut)
    other = attrs.evolve(good, replies=good.replies[:-1])

    assert (
        "a reply is missing" == compare(cut, good, other, world_at_cut(cut)).difference
    )


def test_other_verdict(
    cut: DemoRollout,
    recorded: Callable[..., Recording],
    world_at_cut: Callable[..., Environment],
) -> None:
    """A verify reply that differs is seen."""
    good = recorded(cut)
    other = attrs.evolve(good, verdict=(good.verdict or b"") + b" ")

    assert (
        "the verify reply differs"
        == compare(cut, good, other, world_at_cut(cut)).difference
    )


@pytest.mark.parametrize("side", ["interrupted", "beside"])
def test_fault(
    cut: DemoRollout,
    recorded: Callable[..., Recording],
    world_at_cut: Callable[..., Environment],
    side: str,
) -> None:
    """An episode that could not go on is not identical, whichever side it is on."""
    good = recorded(cut)
    bad = attrs.evolve(good, verdict=None, fault="refused")
    sides = (bad, good) if side == "interrupted" else (good, bad)
    outcome = compare(cut, *sides, world_at_cut(cut))

    assert f"{side}: refused" == outcome.difference
    assert outcome.continued == (side == "beside")


def test_exported_world(cut: DemoRollout, recorded: Callable[..., Recording]) -> None:
    """A world that is missing, or not what the calls give, is seen."""
    good = recorded(cut)
    seed = cut.task.environment

    assert "no world" in str(compare(cut, good, good, None).difference)
    assert "exported world" in str(
        compare(cut, good, good, attrs.evolve(seed, document=JsonObject({}))).difference
    )


def test_whole_report_is_ok(report: Callable[..., DemoReport]) -> None:
    """Nothing differs, nothing is lost, nothing is left: ok."""
    made = report()

    assert (True, ()) == (made.ok, made.lost)


@pytest.mark.parametrize("changed", [{"committed": ()}, {"restored": ()}, {"left": 1}])
def test_losses_are_not_ok(
    report: Callable[..., DemoReport], changed: dict[str, Any]
) -> None:
    """An episode that was not committed or restored, or that is left over."""
    assert not report(**changed).ok


def test_a_session_that_was_restored_twice_is_not_ok(
    report: Callable[..., DemoReport],
) -> None:
    """A rollout that a restore has installed more than once is doubled."""
    keys = report().crashes[0].restored

    assert ((), False) == (report().doubled, report(restored=keys * 2).ok)


def test_document_is_json(report: Callable[..., DemoReport]) -> None:
    """The report can be written as JSON and says what the table says."""
    document = json.loads(encode(freeze(report().to_document())))

    assert (True, 1) == (document["ok"], document["total"]["identical"])
    assert document["rollouts"][0]["changes"]
