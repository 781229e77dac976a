"""``ipistate demo``: a server dies in the middle of its work, and nothing is lost."""

from __future__ import annotations

import tempfile

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import httpx

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from ipistate.cli.exits import LEGEND, Exit, RefusedInputError, refusing
from ipistate.cli.files import read_tasks
from ipistate.cli.interrupt import run_interruptibly
from ipistate.cli.terminal import emit, note, stderr_console, stdout_console, table
from ipistate.codec import encode
from ipistate.demo.plan import Rollout, plan
from ipistate.demo.run import run
from ipistate.demo.scripts import builtin_scripts, derive
from ipistate.demo.workplace import Workplace
from ipistate.errors import IpiStateError
from ipistate.values import freeze


if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from rich.console import Console

    from ipistate.demo.play import Recording
    from ipistate.demo.report import Line, Outcome, Report


@click.command("demo", epilog=LEGEND)
@click.option(
    "--tasks",
    metavar="FILE",
    help="Task rows to play; the built-in ones without it. Agents are then scripted "
    "from the row: required tools, and the injection's target for the gullible one.",
)
@click.option(
    "--rollouts",
    type=click.IntRange(1, 10_000),
    default=80,
    show_default=True,
    help="How many rollouts are played, twice each.",
)
@click.option(
    "--json",
    "json_file",
    metavar="FILE",
    help="Write the report as JSON; - writes it to standard output instead of the table.",
)
@click.option(
    "--keep",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the checkpoint, the server logs and the result rows in this directory.",
)
def command(
    *,
    tasks: str | None,
    rollouts: int,
    json_file: str | None,
    keep: Path | None,
) -> None:
    """Kill a server in the middle of its rollouts, restore, and compare every byte.

    A server process plays rollouts of careful and gullible agents. About a quarter
    ends; the others are stopped in the middle, the server writes a checkpoint and is
    killed with SIGKILL. A fresh process restores, and every episode goes on with the
    cookie it held. A second server plays the same rollouts without interruption.
    Exit code 0 only if every reply is the same and nothing was lost.

    \b
      ipistate demo
      ipistate demo --tasks tasks.jsonl --rollouts 20 --json demo.json --keep out
    """  # noqa: D301
    played = _planned(tasks, rollouts)
    report = _report(played, keep)
    if json_file == "-":
        emit(report.to_document())
    else:
        _show(report)
        if json_file is not None:
            with refusing(json_file):
                text = encode(freeze(report.to_document()))
                Path(json_file).write_bytes(text + b"\n")
            note(f"wrote {json_file}")
    if not report.ok:
        click.get_current_context().exit(Exit.FINDINGS)


def _planned(tasks: str | None, count: int) -> tuple[Rollout, ...]:
    if tasks is None:
        return plan(builtin_scripts(), count)
    rows = enumerate(read_tasks(tasks), 1)
    return plan([derive(f"row-{number}", task) for number, task in rows], count)


def _report(rollouts: Sequence[Rollout], keep: Path | None) -> Report:
    with _directory(keep) as root, _progress(rollouts) as watch:
        try:
            return run_interruptibly(run(rollouts, Workplace(root), watch))
        except (IpiStateError, httpx.HTTPError) as error:
            note(f"the demo could not be played to its end: {error}")
            raise click.exceptions.Exit(Exit.FINDINGS) from error


@contextmanager
def _directory(keep: Path | None) -> Generator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="ipistate-demo-") as name:
            yield Path(name)
        return
    with refusing(str(keep)):
        keep.mkdir(parents=True, exist_ok=True)
        occupied = any(keep.iterdir())
    if occupied:
        raise RefusedInputError(f"{keep}: the directory is not empty")
    yield keep


class _Bar:
    """A bar on a terminal, a line for each stage elsewhere."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("start", total=total)

    def stage(self, name: str) -> None:
        self._progress.update(self._task, description=name)
        if self._progress.disable:
            note(f"demo: {name}")

    def advance(self, recording: Recording) -> None:
        del recording
        self._progress.advance(self._task)


@contextmanager
def _progress(rollouts: Sequence[Rollout]) -> Generator[_Bar]:
    console = stderr_console()
    columns = (
        TextColumn("{task.description:<12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    total = 2 * len(rollouts) + sum(one.cut is not None for one in rollouts)
    progress = Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    )
    with progress:
        yield _Bar(progress, total)


def _show(report: Report) -> None:
    console = stdout_console()
    _show_worlds(console, [one for one in report.outcomes if one.cut is not None])
    lines = [_cells(line) for line in (*report.lines, report.total)]
    heads = ["domain", "rollouts", "at checkpoint", "continued", "reward"]
    heads += ["injection followed", "identical"]
    console.print(table(heads, lines, numbers=range(1, 7)))
    console.print()
    for one in report.outcomes:
        if one.difference is not None:
            console.print(Text(f"{one.rollout_id}: {one.difference}", "red"))
    console.print(_verdict(report))


def _show_worlds(console: Console, exported: Sequence[Outcome]) -> None:
    rows = [
        [one.rollout_id, one.row, f"{one.cut} of {one.calls}", _changes(one)]
        for one in exported
        if one.changes
    ]
    heads = ["exported world", "row", "calls made", "changed against its seed"]
    if rows:
        console.print(table(heads, rows))
    same = len(exported) - len(rows)
    console.print(f"{same} more exported worlds are as they were seeded so far\n")


def _changes(outcome: Outcome) -> str:
    return "; ".join(str(change) for change in outcome.changes)


def _cells(line: Line) -> list[object]:
    return [
        line.domain,
        line.rollouts,
        line.at_checkpoint,
        line.continued,
        f"{line.reward:.2f}",
        line.injection_followed,
        f"{line.identical}/{line.rollouts}",
    ]


def _verdict(report: Report) -> Text:
    evidence, total = report.evidence, report.total
    told = (
        f"server {evidence.killed_pid} ended with {evidence.kill_status} (SIGKILL), "
        f"server {evidence.fresh_pid} restored {len(evidence.restored)} sessions; "
        f"{total.identical} of {total.rollouts} rollouts identical, "
        f"{len(report.lost)} lost, {report.seconds:.1f} s"
    )
    return Text(told, "bold green" if report.ok else "bold red")
