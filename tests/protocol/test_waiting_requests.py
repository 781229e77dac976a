"""The map of requests behaves as a dict would, however it is changed."""

from __future__ import annotations

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate.protocol.events import RequestArrived
from ipistate.protocol.parts.waiting_requests import WaitingRequests


def request(number: int) -> RequestArrived:
    """Make a request."""
    return RequestArrived(number, "/tool", f"s{number}")


@given(
    st.lists(st.integers(0, 300), unique=True),
    st.lists(st.tuples(st.booleans(), st.integers(0, 300)), max_size=200),
)
def test_it_equals_a_dict(first: list[int], changes: list[tuple[bool, int]]) -> None:
    """Additions go last, removals keep the order, and old versions stay."""
    requests = WaitingRequests.of(request(number) for number in first)
    expected, history = {number: request(number) for number in first}, []
    for adds, number in changes:
        history.append((requests, dict(expected)))
        if adds and number not in expected:
            requests = requests.added(request(number))
            expected[number] = request(number)
        else:
            requests = requests.removed(number)
            expected.pop(number, None)

    for found, wanted in [*history, (requests, expected)]:
        assert wanted == found
        assert [*wanted] == [*found]
        assert [*wanted.values()] == [*found.events()]
        assert len(wanted) == len(found)


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 128, 200])
def test_requests_are_found_and_removed_in_every_piece(count: int) -> None:
    """One by one or all at once; of those that are gone no piece is kept."""
    built = WaitingRequests.of(map(request, range(count)))
    grown = WaitingRequests()
    for number in range(count):
        grown = grown.added(request(number))
    assert built == grown

    for number in range(count):
        assert request(number) == grown[number] == built[number]
        grown, built = grown.removed(number), built.removed(number)
    assert {} == grown == built
    assert () == grown._older == built._older


def test_an_unknown_request_is_not_there() -> None:
    """Removing it gives the same map."""
    requests = WaitingRequests.of(map(request, range(70))).added(request(100))

    assert requests is requests.removed(70)
    assert None is requests.get(70)
    with pytest.raises(KeyError):
        requests[70]


def test_it_shows_its_requests() -> None:
    """As a dict would, in order."""
    assert f"Requests({ {1: request(1)} })" == repr(WaitingRequests().added(request(1)))
