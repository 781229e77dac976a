"""``ipistate report``: rollouts as one page of HTML."""

from __future__ import annotations

import os

from collections import Counter
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import starmap
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Final

import click

from ipistate.cli.exits import LEGEND, RefusedInputError, refusing
from ipistate.cli.files import (
    check_one_stdin,
    numbered_lines,
    read_file,
    rereadable,
    size_of,
    task_index,
)
from ipistate.cli.imported import NAMED_TOOLS, imported_table
from ipistate.cli.output_files import check_writable, output_file
from ipistate.cli.progress import reading
from ipistate.cli.terminal import amount, emit, note
from ipistate.cli.texts import shown
from ipistate.errors import DecodeError, SchemaError
from ipistate.kernel import EMPTY_OBJECT, JsonObject, decode
from ipistate.report import Here, Processes, ReportLine, Source, write
from ipistate.scoring import TaskIndex, with_injection, with_world
from ipistate.tools import TOOLS


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Mapping
    from contextlib import AbstractContextManager

    from ipistate.report import Broken, Run, Worker
    from ipistate.tools import Tool

ALONE: Final = 4 * 2**20
"""Bytes of input up to which further processes would take longer to begin."""
_MOST_PROCESSES: Final = 8
_LONGEST_SETTINGS: Final = 2**20


@click.command("report", epilog=LEGEND)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="FILE", help="Write the page to this file.")
@click.option(
    "--tasks",
    metavar="FILE",
    help="Task rows, for rollouts that were stored without their environment.",
)
@NAMED_TOOLS
@click.option(
    "--title", default="Prompt injection: rollouts", help="The title of the page."
)
@click.option(
    "--skip-broken",
    is_flag=True,
    help="Leave lines out that are not rollouts, and say so on the page.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    help="How many processes read large files; one for each core without it.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Write the figures as one JSON document."
)
def command(
    *,
    files: tuple[str, ...],
    output: str | None,
    tasks: str | None,
    table: str | None,
    title: str,
    skip_broken: bool,
    processes: int | None,
    as_json: bool,
) -> None:
    """Show the rollouts of each FILE (JSON Lines) as one page of HTML.

    The page holds rates with their intervals, tables and plots by domain, strategy,
    difficulty, category, verification type and vector, and every rollout: what was
    said, the tool calls, where the injected text was read, what each call changed.
    It is one file that loads nothing. Several FILEs are several runs, compared.

    A run's attempts that failed, in FILE's NAME_failures.jsonl, count as masked. What it
    was made of, in FILE.run.json, stands beside what its rollouts record.

    Each trace is executed again on its row's environment, or on that of its row in
    --tasks. A line that is not a rollout is refused, unless --skip-broken is given.

    \b
      ipistate demo --results rollouts.jsonl
      ipistate report rollouts.jsonl -o report.html
      ipistate report before.jsonl after.jsonl -o report.html --title 'Two models'
      ipistate report rollouts.jsonl --json
    """
    if output is None and not as_json:
        raise click.UsageError("say where the page goes with -o FILE, or give --json")
    check_one_stdin(*files, tasks)
    if tasks is not None and tasks != "-":
        # Each process reads them, and a pipe can be read once.
        tasks = str(rereadable(Path(tasks)))
    if output is not None:
        check_writable(output)
        _check_apart(output, files, tasks)
    by_name = dict(zip(_names(files), files, strict=True))
    runs = _written(
        by_name,
        output,
        title=title,
        workers=_workers(files, tasks, processes, table),
        on_broken=_skip if skip_broken else _refusal(by_name),
    )
    if output is not None:
        note(f"wrote {shown(output)}: {_summary(runs)}")
    if as_json:
        emit({"output": output, "runs": [run.to_document() for run in runs]})


def _written(
    files: Mapping[str, str],
    output: str | None,
    *,
    title: str,
    workers: AbstractContextManager[Worker],
    on_broken: Callable[[str, Broken], None],
) -> list[Run]:
    with (
        _explained(),
        reading(size_of(*files.values())) as watched,
        workers as worker,
        nullcontext() if output is None else output_file(output) as put_page,
    ):
        sources = [
            Source(
                name,
                starmap(ReportLine, watched.over(numbered_lines(one))),
                _failures(one, files.values()),
                _made(one),
            )
            for name, one in files.items()
        ]

        def put(part: str) -> None:
            if put_page is not None:
                # A file name may have bytes that are no text.
                put_page(part.encode(errors="backslashreplace"))

        return write(sources, put, title=title, worker=worker, on_broken=on_broken)


@contextmanager
def _explained() -> Generator[None]:
    try:
        yield
    except SchemaError as error:
        raise RefusedInputError(error.message) from error
    except BrokenProcessPool as error:
        message = "a process that read the rollouts died, perhaps for want of memory"
        raise RefusedInputError(f"{message}; try --processes 1") from error
    except OSError as error:
        message = f"cannot keep what was read: {error.strerror or error}"
        place = f"it goes to {gettempdir()} until the page is written (TMPDIR)"
        raise RefusedInputError(f"{message}; {place}") from error


def _failures(file: str, files: Collection[str]) -> Iterator[ReportLine]:
    # As ``ipistate run`` names it.
    beside = Path(file).with_name(f"{Path(file).stem}_failures.jsonl")
    if file != "-" and size_of(str(beside)) and str(beside) not in files:
        for number, text in numbered_lines(str(beside)):
            yield ReportLine(number, text, is_failure=True)


def _made(file: str) -> JsonObject:
    # As ``ipistate run`` names it. The page can do without.
    beside = Path(file).with_name(f"{Path(file).name}.run.json")
    if file == "-" or size_of(str(beside)) is None:
        return EMPTY_OBJECT
    try:
        found = decode(read_file(str(beside), most=_LONGEST_SETTINGS))
    except (DecodeError, RefusedInputError) as error:
        note(f"{shown(str(beside))} is left out: {error}")
        return EMPTY_OBJECT
    return found if isinstance(found, JsonObject) else EMPTY_OBJECT


def _names(files: tuple[str, ...]) -> list[str]:
    stems = ["standard input" if one == "-" else Path(one).stem for one in files]
    counts = Counter(stems)
    return [
        stem if counts[stem] == 1 else file
        for stem, file in zip(stems, files, strict=True)
    ]


def _workers(
    files: tuple[str, ...],
    tasks: str | None,
    processes: int | None,
    table: str | None,
) -> AbstractContextManager[Worker]:
    make_complete, make_tools = partial(_completing, tasks), partial(_tools, table)
    size = size_of(*files)
    small = size is not None and size <= ALONE
    count = processes or min(_MOST_PROCESSES, os.cpu_count() or 1)
    # Standard input can be read once, and small files are read sooner than processes begin.
    if count == 1 or tasks == "-" or (small and processes is None):
        return nullcontext(Here(make_complete, make_tools))
    make_complete()  # what is wrong with the task rows is said here, not in a process
    return Processes(count, make_complete, make_tools)


def _completing(tasks: str | None) -> Callable[[JsonObject], JsonObject]:
    return partial(_completed, task_index(tasks))


def _tools(table: str | None) -> Mapping[str, Tool]:
    # By its name, since a table of the user's own need not survive a pickle.
    return TOOLS if table is None else imported_table(table)


def _completed(index: TaskIndex, row: JsonObject) -> JsonObject:
    whole = with_injection(row, index)
    return with_world(row if isinstance(whole, str) else whole, index)


def _check_apart(output: str, files: tuple[str, ...], tasks: str | None) -> None:
    for name in (*files, *((tasks,) if tasks else ())):
        if name != "-" and Path(output).exists() and Path(name).exists():
            with refusing(name):
                same = Path(output).samefile(name)
            if same:
                message = (
                    f"{shown(output)}: this is an input; give the page another name"
                )
                raise RefusedInputError(message)


def _refusal(files: Mapping[str, str]) -> Callable[[str, Broken], None]:
    def refuse(name: str, broken: Broken) -> None:
        raise RefusedInputError(
            f"{shown(files[name])}, line {broken.line}: {broken.message}",
            "A run that was interrupted leaves its last line torn: resume it. "
            "--skip-broken leaves such lines out, and the page says so.",
        )

    return refuse


def _skip(name: str, broken: Broken) -> None:
    """Leave it at that: the page, the summary and --json count what is left out."""
    del name, broken


def _summary(runs: list[Run]) -> str:
    told = amount(sum(run.groups.total.rollouts for run in runs), "rollout")
    if len(runs) > 1:
        told += f" of {len(runs)} runs"
    skipped = sum(run.skipped for run in runs)
    if not skipped:
        return told
    first = next(run for run in runs if run.broken)
    where = f"{first.name}, line {first.broken[0].line}: {first.broken[0].message}"
    return f"{told}; {amount(skipped, 'line')} left out, the first is {where}"
