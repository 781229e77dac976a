"""Cost is linear in sizes: of every tool, and of everything that reads what others wrote."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from growing import other_works, tool_works
from growth import exponents

from ipistate import TOOLS


SMALLEST = 3_000


@pytest.mark.parametrize("name", TOOLS)
def test_b3_tools(name: str) -> None:
    """B3: a call's work is linear in the sizes of its arguments and its collections."""
    for prepare in tool_works(TOOLS[name]):
        found = exponents(prepare, SMALLEST)

        assert found.is_linear, found


@pytest.mark.parametrize("name", other_works())
def test_b3_everything_else(name: str) -> None:
    """B3: so is that of verify, effects, diff, fork, import, metrics and reports."""
    found = exponents(*other_works()[name])

    assert found.is_linear, found


def test_products_are_seen() -> None:
    """The kit sees a product of sizes, also one inside of the interpreter."""

    def lowered(size: int) -> Callable[[], object]:
        text, rows = "K" * size, range(size // 10)
        return lambda: [text.lower() for _ in rows]

    assert not exponents(lowered, 300, 1).is_linear
