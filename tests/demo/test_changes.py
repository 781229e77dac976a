"""What changed between two worlds, collection by collection."""

from __future__ import annotations

from typing import Any

import pytest

from ipistate import Environment
from ipistate.demo.outcome import changes


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ({"a": {"x": 1}}, {"a": {"x": 1}}, ""),
        ({"a": {"x": 1}}, {"a": {"x": 1.0}}, "a ~x"),
        ({"a": {"x": {"p": 1, "q": 2}}}, {"a": {"x": {"q": 2, "p": 1}}}, "a ~x"),
        ({"a": {"x": 1}}, {"a": {"x": 1, "y": 2}}, "a +y"),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2}}, "a -x"),
        ({"a": [1]}, {"a": [1, 2]}, "a +1"),
        ({"a": [1]}, {"a": {"0": 1}}, "a ~"),
        ({"a": 1}, {"a": 2}, "a ~"),
        ({}, {"a": [5]}, "a +0"),
        ({}, {"a": []}, "a +"),
        ({"a": []}, {}, "a -"),
        ({"a": {"x": 1}, "b": []}, {"a": {"x": 2}, "b": [1]}, "a ~x; b +0"),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}, "a ~x"),
    ],
)
def test_changes(old: dict[str, Any], new: dict[str, Any], told: str) -> None:
    """Rows that were added, changed and removed are named, types and order included."""
    found = changes(Environment.of(old), Environment.of(new))

    assert told == "; ".join(map(str, found))
