"""Building a report: lines of rollouts in, one page out, in bounded memory."""

from __future__ import annotations

import tempfile

from typing import TYPE_CHECKING

from ipistate.errors import SchemaError
from ipistate.report.chunk import Broken, Here, ReportLine, as_it_is
from ipistate.report.page import page
from ipistate.report.runs import Source, collect


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ipistate.kernel import JsonObject
    from ipistate.report.runs import OnBroken, Run, Worker


def build(
    runs: Mapping[str, Iterable[bytes]],
    *,
    title: str = "Rollouts",
    complete: Callable[[JsonObject], JsonObject] | None = None,
) -> str:
    """Build the page of some runs, in memory.

    Args:
        runs: The lines of each run's file, by the run's name.
        title: The page's title.
        complete: Gives a row what it lacks, for example its task's environment.

    Raises:
        SchemaError: A line is not a rollout; the message says which.
        ValueError: There are no runs.
    """
    sources = [
        Source(name, [ReportLine(number, text) for number, text in enumerate(lines, 1)])
        for name, lines in runs.items()
    ]
    parts: list[str] = []
    write(sources, parts.append, title=title, worker=Here(lambda: complete or as_it_is))
    return "".join(parts)


def write(
    sources: Iterable[Source],
    put: Callable[[str], object],
    *,
    title: str,
    worker: Worker,
    on_broken: OnBroken | None = None,
) -> list[Run]:
    """Write the page of some runs, part by part; nothing before all lines are read.

    Args:
        sources: The runs.
        put: Called with each part of the page.
        title: The page's title.
        worker: Makes chunks of lines.
        on_broken: Called for each line that is not a rollout. It may raise; by default
            it does.

    Raises:
        SchemaError: A line is not a rollout.
        ValueError: There are no runs.
    """
    with tempfile.TemporaryFile("w+", encoding="ascii") as kept:
        runs, index = collect(
            sources, worker, lambda data: kept.write(f"{data}\n"), on_broken or _refuse
        )
        if not runs:
            raise ValueError("a report needs one run at least")
        kept.seek(0)
        chunks = (line.rstrip("\n") for line in kept)
        for part in page(title, runs, index, chunks):
            put(part)
    return runs


def _refuse(source: str, broken: Broken) -> None:
    message = f"{source}, line {broken.line}: {broken.message}"
    raise SchemaError("not_a_rollout", message)
