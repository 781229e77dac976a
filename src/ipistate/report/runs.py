"""Runs of a report: what is known of each, and the work through all of their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from ipistate.errors import IpiStateError, SchemaError
from ipistate.kernel import EMPTY_OBJECT, JsonObject
from ipistate.report.chunk import Broken, Chunk, ReportLine
from ipistate.report.index import Index, place_of
from ipistate.report.recorded import RecordedUse
from ipistate.report.tally import Groups
from ipistate.scoring import Rate, read_rollout


if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator

    OnBroken = Callable[[str, Broken], None]

MOST_BROKEN: Final = 50
"""Broken lines of a run that are listed one by one."""


class Worker(Protocol):
    """Makes chunks of lines, here or in other processes."""

    def chunks(self, lines: Iterable[ReportLine]) -> Iterator[Chunk]:
        """Make the chunks of a file's lines, in their order."""
        ...


@attrs.frozen
class Source:
    """A run to report on: its name, and the lines of its file."""

    name: str
    lines: Iterable[ReportLine]
    failures: Iterable[ReportLine] = ()
    """Attempts that failed; those whose rollout has a row by now do not count."""
    made: JsonObject = EMPTY_OBJECT
    """What the run was made of, as ``ipistate run`` writes it beside its rows."""


@attrs.define
class Run:
    """What is known of one run."""

    name: str
    groups: Groups = attrs.field(factory=Groups)
    made: JsonObject = EMPTY_OBJECT
    recorded: RecordedUse = attrs.field(factory=RecordedUse)
    tasks: dict[str, Rate] = attrs.field(factory=dict[str, Rate])
    """How often each task was resisted, by the task's key."""
    broken: list[Broken] = attrs.field(factory=list[Broken])
    skipped: int = 0

    def add(self, found: Chunk) -> None:
        """Count a chunk."""
        self.groups.merge(found.groups)
        self.recorded.merge(found.recorded)
        for one in found.entries:
            if one.key and one.resisted is not None:
                before = self.tasks.get(one.key, Rate())
                self.tasks[one.key] = Rate(
                    before.successes + one.resisted, before.n + 1
                )
        self.skipped += len(found.broken)
        self.broken += found.broken[: MOST_BROKEN - len(self.broken)]

    def to_document(self) -> dict[str, Any]:
        """Write the figures as plain data."""
        broken = [attrs.asdict(one) for one in self.broken]
        figures = self.groups.to_document()
        return {
            "name": self.name,
            "skipped": self.skipped,
            "broken": broken,
            "made": self.made,
            **self.recorded.to_document(),
            **figures,
        }


def collect(
    sources: Iterable[Source],
    worker: Worker,
    keep: Callable[[str], object],
    on_broken: OnBroken,
) -> tuple[list[Run], Index]:
    """Work through all runs.

    Args:
        sources: The runs.
        worker: Makes chunks of lines.
        keep: Called with the data of each chunk, in order.
        on_broken: Called for each line that is not a rollout; it may raise.

    Raises:
        SchemaError: ``no_rollouts``: a run has none.
    """
    runs: list[Run] = []
    index = Index()
    for number, source in enumerate(sources):
        run = Run(source.name, made=source.made)
        runs.append(run)
        done: set[str] = set()  # whole before the failures are looked at
        for lines in (source.lines, _unfinished(source.failures, done)):
            for found in worker.chunks(lines):
                for one in found.broken:
                    on_broken(source.name, one)
                run.add(found)
                index.add(number, found.entries)
                done |= {one.task for one in found.entries}
                keep(found.data)
        if not run.groups.total.rollouts:
            raise SchemaError("no_rollouts", f"{source.name}: no line is a rollout")
    return runs, index


def _unfinished(
    failures: Iterable[ReportLine], done: Container[str]
) -> Iterator[ReportLine]:
    """Visit the last failed attempt of each rollout that has no row."""
    last: dict[str, ReportLine] = {}
    for line in failures:
        try:
            where = place_of(read_rollout(line.text))
        except IpiStateError:
            yield line  # its reader says what is wrong
            continue
        if where not in done:
            last[where] = line
    yield from last.values()
