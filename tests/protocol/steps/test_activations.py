"""The index of an activation: the last one again, the next one, or neither."""

from __future__ import annotations

import pytest

from ipistate.kernel import JsonObject
from ipistate.protocol.steps.activations import ActivationLog
from ipistate.protocol.steps.failures import EpisodeRefusal


FIRST, SECOND = JsonObject({"id": "resp_1"}), JsonObject({"id": "resp_2"})


def test_activations_are_counted_from_one() -> None:
    """Without an index a request asks for the next one."""
    log = ActivationLog()

    assert log.take(None) == log.take("1") == 1
    assert log.ended(FIRST).take("2") == 2


def test_the_last_one_again_gets_its_reply() -> None:
    """Nothing runs twice because a reply was lost."""
    log = ActivationLog().ended(FIRST).ended(SECOND)

    assert log.take("2") is SECOND
    assert log.take("3") == 3


@pytest.mark.parametrize(
    "header",
    [
        "0",
        "-1",
        '"1"',
        "4",
        "1",
        "",
        "+3",
        " 3",
        "3.0",
        "03",
        "٣",
        "x" * 5000,
        "9" * 99,
    ],
)
def test_another_index_is_out_of_order(header: str) -> None:
    """An older one, one too many, and what is no number from 1."""
    found = ActivationLog().ended(FIRST).ended(SECOND).take(header)

    assert isinstance(found, EpisodeRefusal)
    assert (found.status, found.code) == (409, "activation_out_of_order")
    assert len(found.detail) < 100


def test_before_the_first_there_is_no_reply() -> None:
    """Zero have been completed, but no request was number 0."""
    assert isinstance(ActivationLog().take("0"), EpisodeRefusal)
