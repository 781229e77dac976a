"""What tests have compared, printed below their results, also of several processes.

A test's evidence travels in its report, so that a run on several processes prints the
same totals and tables as a run on one.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pytest

COUNTS = "counts"
CELL = "cell"


class Table:
    """What came of each step: a fixture's handle, through which tests fill in cells."""

    def __init__(
        self, title: str, columns: Sequence[str], order: Sequence[str]
    ) -> None:
        """Know the columns, and the order of the rows."""
        self.title = title
        self.columns: list[str] = list(columns)
        self.order: list[str] = list(order)
        self.properties: list[tuple[str, object]] = []

    def of(self, node: pytest.Item) -> Table:
        """Write into the report of this test from now on."""
        self.properties = node.user_properties
        return self

    def enter(self, row: str, column: str, outcome: str) -> None:
        """Fill in a cell."""
        cell = [self.title, self.columns, self.order.index(row), row, column, outcome]
        self.properties.append((CELL, cell))


class Evidence:
    """The plugin that gathers the evidence of all reports and prints it."""

    def __init__(self) -> None:
        """Begin with none."""
        self.counts: Counter[str] = Counter()
        self.columns: dict[str, list[str]] = {}
        self.rows: dict[str, dict[tuple[int, str], dict[str, str]]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what a test has left when it is over."""
        if report.when != "teardown":
            return
        for kind, found in report.user_properties:
            if kind == COUNTS and isinstance(found, dict):
                self.counts.update(found)
            elif kind == CELL and isinstance(found, list):
                title, columns, place, row, column, outcome = found
                self.columns[title] = columns
                rows = self.rows.setdefault(title, {})
                rows.setdefault((place, row), {})[column] = outcome

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        """Print totals and tables."""
        for name, count in sorted(self.counts.items()):
            terminalreporter.write_line(f"compared: {count:7,} {name}")
        for title in sorted(self.rows):
            terminalreporter.section(title)
            for line in self._lines(title):
                terminalreporter.write_line(line)

    def _lines(self, title: str) -> Iterator[str]:
        columns = self.columns[title]
        table = [[title, *columns]]
        for (_, row), cells in sorted(self.rows[title].items()):
            table.append([row, *(cells.get(column, "-") for column in columns)])
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for line in table:
            yield _aligned(line, widths).rstrip()


def _aligned(cells: Iterable[str], widths: Iterable[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded)


def counting(node: pytest.Item) -> Iterator[Counter[str]]:
    """Count for one test, and leave the totals in its report."""
    counts: Counter[str] = Counter()
    yield counts
    node.user_properties.append((COUNTS, dict(counts)))
