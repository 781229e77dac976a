"""Which deadlines a control call may have."""

from __future__ import annotations

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate.errors import SchemaError
from ipistate.protocol import Call, check_deadline
from ipistate.protocol.operations import MAX_AHEAD


NOW = 1_790_000_000.0


@given(st.floats(-1e9, MAX_AHEAD))
def test_a19_deadlines_of_the_next_days_are_allowed(ahead: float) -> None:
    """And those that have passed: the operation itself says what that means."""
    check_deadline(Call(checkpoint_id="c-1", deadline_ts=NOW + ahead), NOW)


@given(st.floats(MAX_AHEAD + 1, 1e300) | st.just(NOW * 999))
def test_a19_a_deadline_far_away_is_refused(ahead: float) -> None:
    """A caller that means milliseconds is told so, with the server's time."""
    body = Call(checkpoint_id="c-1", deadline_ts=NOW + ahead)
    with pytest.raises(SchemaError, match="not milliseconds") as refused:
        check_deadline(body, NOW)

    assert ("deadline_too_far", "$.deadline_ts") == (
        refused.value.code,
        refused.value.path,
    )
