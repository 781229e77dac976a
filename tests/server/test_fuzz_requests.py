"""A few hundred raw requests on each parser; ``fuzz_requests.py`` sends many more."""

from __future__ import annotations

import pytest

from tests.server.fuzz_requests import PARSERS, fuzz
from tests.server.raw_requests import raw_request


REQUESTS = 400


def test_a_number_is_always_the_same_request() -> None:
    """So that a failure can be sent again."""
    again = [raw_request(7, number) for number in range(50)]

    assert again == [raw_request(7, number) for number in range(50)]
    assert 40 < len({request.pieces for request in again})


@pytest.mark.parametrize("parser", PARSERS)
def test_nothing_that_is_sent_is_a_fault_of_the_server(parser: str) -> None:
    """No 5xx, no traceback, nothing in flight, and a prepare beside open uploads."""
    pytest.importorskip(parser)
    pytest.importorskip(PARSERS[parser])
    outcome = fuzz(parser, REQUESTS, seed=1)

    assert () == outcome.failures
    assert (0, 0) == (outcome.inflight, outcome.faults)
    assert "prepared" == outcome.prepared["phase"]
    assert {"200", "400", "408", "422"} <= outcome.answers.keys()
    assert outcome.is_good
