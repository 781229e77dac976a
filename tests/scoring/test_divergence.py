"""Where two replies begin to differ, apart from ids that were minted otherwise."""

from __future__ import annotations

import json

import pytest

from hypothesis import assume, given

from ipistate import render
from ipistate.kernel.values import JsonArray, JsonObject, JsonValue
from ipistate.scoring.divergence import divergence
from ipistate.scoring.renaming import Renaming
from ipistate.testing import json_values


def found(recorded: str, executed: str, **ids: str) -> tuple[int, str | None]:
    """Compare two texts; return offset and path."""
    one = divergence(recorded, executed, Renaming(ids))
    return one.offset, one.path


@pytest.mark.parametrize(
    ("recorded", "executed", "offset", "path"),
    [
        ("abc", "abd", 2, None),
        ("ab", "abc", 2, None),
        ("", "x", 0, None),
        ('{"a": 1}', '{"a": 2}', 6, "$.a"),
        ('{"a": 1}', '{"a": true}', 6, "$.a"),
        ('{"a": [1, 2]}', '{"a": [1, 2, 3]}', 11, "$.a[2]"),
        ('{"a": [1], "b": 1}', '{"a": [1], "b": 2}', 16, "$.b"),
        ("[]", "{}", 0, "$"),
        ('{"a": 1}', "Not found", 0, None),
        ('{"a": 1}', '{"a":1}', 5, None),
    ],
)
def test_first_difference(
    recorded: str, executed: str, offset: int, path: str | None
) -> None:
    """Two JSON replies differ at a path, other texts after so many characters."""
    assert (offset, path) == found(recorded, executed)


@given(left=json_values(max_depth=20), right=json_values(max_depth=20))
def test_difference_is_one(
    left: float | JsonArray | JsonObject | None, right: JsonValue
) -> None:
    """What is the same up to the offset is not the same after it."""
    recorded, executed = render(left), render(right)
    assume(recorded != executed)
    one = divergence(recorded, executed, Renaming())
    start = one.offset

    assert one.recorded[:start] == one.executed[:start]
    assert one.recorded[start : start + 1] != one.executed[start : start + 1]
    assert one.path is not None


MINTED = '{"claim_id": "CL-%s", "amount": %d}'


def test_minted_id_is_no_difference_of_its_own() -> None:
    """With other ids before it, the real difference is still the one that is shown."""
    recorded, executed = MINTED % ("00BEEF", 6), MINTED % ("AAAAAA", 5)
    one = divergence(recorded, executed, Renaming())

    assert MINTED % ("AAAAAA", 6) == one.recorded
    assert "$.amount" == one.path


def test_known_ids_are_not_guessed() -> None:
    """An id that is known keeps its name, and is then the difference."""
    recorded, executed = json.dumps({"a": "CL-00BEEF"}), json.dumps({"a": "CL-AAAAAA"})

    assert "$.a" == found(recorded, executed, **{"CL-00BEEF": "CL-BBBBBB"})[1]
    assert "$.a" == found(recorded, executed, **{"CL-BBBBBB": "CL-AAAAAA"})[1]


def test_ids_of_another_kind_are_not_guessed() -> None:
    """An id is never taken for one with another prefix."""
    recorded, executed = "CL-00BEEF, 6", "PO-AAAAAA, 5"

    assert recorded == divergence(recorded, executed, Renaming()).recorded


def test_all_ids_differ_and_nothing_else() -> None:
    """If only the names are wrong, they are what differs."""
    recorded, executed = "CL-00BEEF CL-00BEEF", "CL-AAAAAA CL-BBBBBB"
    one = divergence(recorded, executed, Renaming())

    assert ("CL-AAAAAA CL-AAAAAA", 13) == (one.recorded, one.offset)


def test_renaming_that_would_hide_the_difference() -> None:
    """Two recorded ids that are one id here are shown as they were recorded."""
    names = Renaming({"CL-AAAAAA": "CL-AAAAAA"})
    one = divergence("CL-00BEEF", "CL-AAAAAA", names)

    assert ("CL-00BEEF", 3) == (one.recorded, one.offset)
