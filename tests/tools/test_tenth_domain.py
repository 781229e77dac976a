"""A domain outside the package, as the manual shows it: held to every law."""

from __future__ import annotations

import re

from pathlib import Path

from ipistate.testing import LAWS


PAGE = Path(__file__).parents[2] / "docs" / "guides" / "write-a-tool.md"
TEXT = PAGE.read_text("utf-8")
(BLOCK,) = re.findall(r"```python\n(import .*?)```", TEXT, re.DOTALL)
ABOVE = TEXT[: TEXT.index(BLOCK)].count("\n")

# Its tests become tests of this module. Hypothesis looks up their sources in the page,
# so each line has the number that it has there.
exec(compile("\n" * ABOVE + BLOCK, str(PAGE), "exec"))


def test_it_is_short() -> None:
    """A domain and its tests fit into less than 40 lines of code."""
    assert sum(bool(line) for line in BLOCK.splitlines()) < 40


def test_it_is_whole() -> None:
    """The block defines the tests that pytest collects here."""
    marks = globals()["test_law"].pytestmark

    assert [mark.args for mark in marks] == [("law", LAWS)]
    assert "runTest" in dir(globals()["TestGarden"])
