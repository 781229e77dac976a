"""Strategies whose printed form is short; Hypothesis prints them in every report."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from hypothesis import strategies as st


if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")


def concise(strategy: SearchStrategy[T]) -> SearchStrategy[T]:
    """Hide how a strategy is made."""

    @st.composite
    def concealed(draw: st.DrawFn) -> T:
        return draw(strategy)

    return concealed()
