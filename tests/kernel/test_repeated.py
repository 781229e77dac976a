"""Repeated members are found where they stand."""

from __future__ import annotations

import json

from typing import Any

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate.kernel import repeated_members
from ipistate.testing import json_values


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("{}", []),
        ('"a"', []),
        ('{"a": 1, "a": 1}', [("a",)]),
        ('{"b": 1, "a": 2, "a": 3, "b": 4, "a": 5}', [("b",), ("a",)]),
        (b'[1, {"x": {"a": 1, "a": 2}}]', [(1, "x", "a")]),
        (
            '{"x": {"a": 1, "a": 2}, "y": [{"b": 1, "b": 2}], "x": {"c": 1, "c": 2}}',
            [("x",), ("x", "c"), ("y", 0, "b")],
        ),
    ],
)
def test_paths_of_repeated_members(text: str, paths: list[Any]) -> None:
    """Each name is told of once, an object's own before those inside it."""
    assert paths == [*repeated_members(text)]


@given(json_values())
def test_written_values_repeat_nothing(value: Any) -> None:
    """What is written from a value has every name once."""
    assert [] == [*repeated_members(json.dumps(value))]


@given(st.text())
def test_what_is_not_json_is_refused(text: str) -> None:
    """A text that is not JSON is a ValueError and nothing else."""
    with pytest.raises(ValueError):  # noqa: PT011 - the parser's own
        next(repeated_members(f"{{{text}]"))  # an object never ends so


def test_deep_texts() -> None:
    """Nesting that the parser reads is walked to its end."""
    text = '{"a":' * 900 + '{"b":1,"b":2}' + "}" * 900

    assert [(*("a",) * 900, "b")] == [*repeated_members(text)]
