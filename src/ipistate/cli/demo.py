"""``ipistate demo``: a server dies in the middle of its work, and nothing is lost."""

from __future__ import annotations

import tempfile

from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import attrs
import click

from rich.progress import MofNCompleteColumn

from ipistate.cli.demo_deployment import (
    check_deployment,
    check_weights,
    deployed,
    show_deployment,
)
from ipistate.cli.demo_tables import show
from ipistate.cli.exits import LEGEND, Exit, RefusedInputError, refusing
from ipistate.cli.files import read_tasks
from ipistate.cli.interrupt import run_interruptibly
from ipistate.cli.options import FILE
from ipistate.cli.output_files import check_writable, output_file
from ipistate.cli.progress import bar
from ipistate.cli.terminal import emit, note
from ipistate.cli.texts import shown
from ipistate.demo import (
    TOPOLOGIES,
    DemoRollout,
    Workplace,
    derive,
    generated_scripts,
    plan,
    plan_for,
    run,
    run_full,
    run_rounds,
)
from ipistate.errors import IpiStateError
from ipistate.kernel import encode, freeze


if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence

    from rich.progress import Progress

    from ipistate.cli.demo_tables import AnyReport
    from ipistate.demo import DemoWatcher, Topology


T = TypeVar("T")

Demo: TypeAlias = "Callable[[Sequence[DemoRollout], Workplace, DemoWatcher], Coroutine[Any, Any, AnyReport]]"


@click.command("demo", epilog=LEGEND)
@click.option(
    "--tasks",
    metavar="FILE",
    help="Task rows to play; generated ones without it. Agents are then scripted "
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
    "--sessions",
    type=click.IntRange(1, 10_000),
    help="How many sessions are live at the checkpoint; --rollouts then does not count.",
)
@click.option(
    "--full",
    is_flag=True,
    help="Kill twice, with a checkpoint in between of sessions that were restored and "
    "not continued, and retire some rollouts, which start over.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 10_000),
    help="Instead, kill a server in each of so many rounds, at random moments of a "
    "commit or a restore.",
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Chooses the moments of --rounds.",
)
@click.option(
    "--deployment",
    is_flag=True,
    help="Play in a whole deployment instead, each server a process of its own: an "
    "environment server or a relay, an agent, a policy model, and a resources server.",
)
@click.option(
    "--topology",
    type=click.Choice(TOPOLOGIES),
    default=TOPOLOGIES[0],
    show_default=True,
    help="Who drives the agent of --deployment: an environment server, or a relay of "
    "rows.",
)
@click.option(
    "--weights",
    type=FILE,
    help="Have a real model in the --deployment in place of the scripted one: this GGUF "
    "file behind llama.cpp and a worker. Needs the package xllamacpp.",
)
@click.option(
    "--json",
    "json_file",
    metavar="FILE",
    help="Write the report as JSON; - writes it to standard output instead of the table.",
)
@click.option(
    "--results",
    metavar="FILE",
    help="Write the finished rollouts to this file, for the verbs replay and verify.",
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
    sessions: int | None,
    full: bool,
    rounds: int | None,
    seed: int,
    deployment: bool,
    topology: Topology,
    weights: Path | None,
    json_file: str | None,
    results: str | None,
    keep: Path | None,
) -> None:
    """Kill a server in the middle of its rollouts, restore, and compare every byte.

    A server process plays rollouts of careful and gullible agents. About a quarter
    ends; the others are stopped in the middle, the server writes a checkpoint and is
    killed with SIGKILL. A fresh process restores, and every episode goes on with the
    cookie it held. A second server plays the same rollouts without interruption.
    Exit code 0 only if every reply is the same and nothing was lost.

    With --full the restored sessions are checkpointed again before any of them goes
    on, and that server is killed as well. With --rounds each round kills a server at
    a random moment, and a fresh one restores the newest complete checkpoint.

    With --deployment four servers are killed at once, twice, with a checkpoint in
    between. With --rounds as well, each round kills some of the four at a random moment
    of a prepare, a commit, a resume or a restore. With --weights a real model's
    half-made generations are cut for the checkpoint, and go on after the crash; what it
    says differs from time to time, so results are counted and not compared.

    \b
      ipistate demo
      ipistate demo --tasks tasks.jsonl --rollouts 20 --json demo.json --keep out
      ipistate demo --results rollouts.jsonl
      ipistate demo --full --sessions 1000
      ipistate demo --rounds 50
      ipistate demo --deployment --topology relay
      ipistate demo --deployment --rounds 50 --rollouts 40
    """
    if deployment:
        check_deployment(tasks=tasks, sessions=sessions, full=full, results=results)
    check_weights(weights, topology, deployment=deployment, rounds=rounds)
    if full and rounds is not None:
        raise click.UsageError("--full and --rounds are two demos; choose one")
    if results is not None and rounds is not None:
        raise click.UsageError("--rounds never finishes a rollout; leave out --results")
    for written in (None if json_file == "-" else json_file, results):
        if written is not None:
            check_writable(written)
    if deployment:
        work = partial(
            deployed, topology, rollouts, rounds=rounds, seed=seed, weights=weights
        )
        told = _ChosenDemo(work, rounds or rollouts, show_deployment)
    else:
        told = _story(
            _planned(tasks, rollouts, sessions), full=full, rounds=rounds, seed=seed
        )
    with _directory(keep) as root:
        ok = told.play(root, json_file)
        if results is not None:
            with Workplace(root).results.open("rb") as rows:
                _write(results, rows)
    if not ok:
        click.get_current_context().exit(Exit.FINDINGS)


class _Reported(Protocol):
    @property
    def ok(self) -> bool: ...

    def to_document(self) -> dict[str, Any]: ...


@attrs.frozen
class _ChosenDemo:
    """A demo, how many steps its bar has, and what shows its report."""

    demo: Callable[[Path, DemoWatcher], Coroutine[Any, Any, Any]]
    steps: int
    shows: Callable[[Any], None]

    def play(self, root: Path, json_file: str | None) -> bool:
        with _progress(self.steps) as watch:
            report: _Reported = _ended(self.demo(root, watch))
        if json_file == "-":
            emit(report.to_document())
        else:
            self.shows(report)
        if json_file is not None and json_file != "-":
            text = encode(freeze(report.to_document()))
            _write(json_file, [text + b"\n"])
        return report.ok


def _story(
    played: Sequence[DemoRollout], *, full: bool, rounds: int | None, seed: int
) -> _ChosenDemo:
    demo: Demo = run_full if full else run
    cut = sum(one.cut is not None for one in played)
    steps = 2 * len(played) + cut
    if rounds is not None:
        demo = partial(run_rounds, count=rounds, seed=seed)
        steps = (1 + 3 * rounds) * cut
    return _ChosenDemo(
        lambda root, watch: demo(played, Workplace(root), watch), steps, show
    )


def _write(name: str, lines: Iterable[bytes]) -> None:
    with output_file(name) as put:
        for line in lines:
            put(line)
    note(f"wrote {shown(name)}")


def _planned(
    tasks: str | None, rollouts: int, sessions: int | None
) -> tuple[DemoRollout, ...]:
    if tasks is None:
        scripts = generated_scripts()
    else:
        rows = enumerate(read_tasks(tasks), 1)
        scripts = tuple(derive(f"row-{number}", task) for number, task in rows)
    if sessions is not None:
        return plan_for(scripts, sessions)
    return plan(scripts, rollouts)


def _ended(demo: Coroutine[Any, Any, T]) -> T:
    try:
        return run_interruptibly(demo)
    except IpiStateError as error:
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

    def advance(self) -> None:
        self._progress.advance(self._task)


@contextmanager
def _progress(total: int) -> Generator[_Bar]:
    with bar(MofNCompleteColumn()) as progress:
        yield _Bar(progress, total)
