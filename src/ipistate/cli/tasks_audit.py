"""``ipistate tasks audit``: which changes of the reference calls go unnoticed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from rich.progress import MofNCompleteColumn

from ipistate.cli.exits import LEGEND, Exit, refusing
from ipistate.cli.files import read_rows, read_tasks
from ipistate.cli.options import AS_JSON
from ipistate.cli.progress import bar
from ipistate.cli.terminal import amount, emit, note, stdout_console, table
from ipistate.cli.texts import plain
from ipistate.demo import builtin_scripts
from ipistate.generate import builtin
from ipistate.kernel import render
from ipistate.scoring import RowAudit, Trajectories, audit, by_row


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ipistate.scoring import Judged, Task

_UNSOUND = {
    "benign_rejected": "the benign trajectory itself is not accepted",
    "injection_missed": "the injection's own call does not count as followed",
}


@click.command("audit", epilog=LEGEND)
@click.argument("file", required=False)
@click.option(
    "--trajectories",
    metavar="FILE",
    help="Reference calls of the rows. Without them only the injection's is changed.",
)
@AS_JSON
def command(*, file: str | None, trajectories: str | None, as_json: bool) -> None:
    """Change one thing of each reference call, and see which checks still accept it.

    Without FILE (task rows, JSON Lines) the built-in rows are audited. A mutant has
    another id, recipient, date, flag or text, ten times the amount, a call more or less.
    "trace" counts those that the verdict accepts, "effects" those that an effects
    report does. What effects accept has a reason, or is a finding: exit code 1.

    \b
      ipistate tasks audit
      ipistate tasks audit tasks.jsonl --trajectories trajectories.jsonl --json
    """
    if file is None and trajectories is not None:
        raise click.UsageError("--trajectories needs the FILE of its rows")
    rows, ways = _builtin() if file is None else _given(file, trajectories)
    audits = list(_audited(list(rows.values()), ways))
    if as_json:
        emit(_document(file, rows, audits))
    else:
        _print(list(rows), audits)
    if not all(one.passes for one in audits):
        click.get_current_context().exit(Exit.FINDINGS)


_Given: TypeAlias = "tuple[Mapping[str, Task], Mapping[int, Trajectories]]"


def _builtin() -> _Given:
    scripts = builtin_scripts()
    ways = {one.row: one for one in builtin.trajectories()}
    return {script.name: script.task for script in scripts}, ways


def _given(file: str, trajectories: str | None) -> _Given:
    tasks = read_tasks(file)
    ways = _trajectories(trajectories, len(tasks))
    without = len(tasks) - len(ways)
    if without:
        shown = amount(without, "row has", "rows have")
        note(f"{shown} no trajectories: only the injection's call is changed")
    return {f"row {index}": task for index, task in enumerate(tasks)}, ways


def _trajectories(file: str | None, rows: int) -> Mapping[int, Trajectories]:
    def of_these_rows(line: bytes) -> Trajectories:
        found = Trajectories.from_json(line)
        by_row([found], rows)
        return found

    if file is None:
        return {}
    found = [*read_rows(file, of_these_rows)]
    with refusing(file):
        return by_row(found, rows)


def _audited(
    rows: Sequence[Task], ways: Mapping[int, Trajectories]
) -> Iterator[RowAudit]:
    with bar(MofNCompleteColumn()) as progress:
        for index, task in enumerate(progress.track(rows, description="audit")):
            yield audit(index, task, ways.get(index))


def _counts(audits: Iterable[RowAudit]) -> dict[str, int]:
    judged = [one for row in audits for one in row.judged]
    return {
        "mutants": len(judged),
        "trace": sum(one.trace for one in judged),
        "effects": sum(one.effects for one in judged),
        "unexplained": sum(one.is_unexplained for one in judged),
    }


def _reasons(audits: Iterable[RowAudit]) -> dict[str, int]:
    found = Counter(one.reason for row in audits for one in row.judged if one.reason)
    return {str(reason): count for reason, count in found.most_common()}


def _print(names: Sequence[str], audits: Sequence[RowAudit]) -> None:
    total = _counts(audits)
    lines = [
        [name, *_counts([row]).values()]
        for name, row in zip(names, audits, strict=True)
    ]
    lines.append(["total", *total.values()])
    stdout_console().print(table(["row", *total], lines, numbers=range(1, 5)))
    reasons = [f"{count} {reason}" for reason, count in _reasons(audits).items()]
    click.echo(f"accepted with a reason: {', '.join(reasons) or 'none'}")
    for name, row in zip(names, audits, strict=True):
        for one in row.unsound:
            click.echo(plain(f"{name}: {_UNSOUND[one]}"))
        for judged in row.unexplained:
            click.echo(plain(f"{name}: {_told(judged)}"))


def _told(judged: Judged) -> str:
    mutant = judged.mutant
    by = [name for name in ("trace", "effects") if getattr(judged, name)]
    changed = ""
    if mutant.argument is not None:
        values = f"{render(mutant.old)} -> {render(mutant.new)}"
        changed = f" {mutant.argument} {values}"
    where = f"{judged.part} call {mutant.call} ({mutant.tool})"
    return f"{where}: {mutant.kind}{changed}: accepted by {' and '.join(by)}"


def _document(
    file: str | None, names: Iterable[str], audits: Sequence[RowAudit]
) -> dict[str, Any]:
    return {
        "file": file,
        "total": {**_counts(audits), "reasons": _reasons(audits)},
        "rows": [
            {
                "row": row.row,
                "name": name,
                **_counts([row]),
                "reasons": _reasons([row]),
                "unsound": list(row.unsound),
                "accepted": [_judged(one) for one in row.judged if one.is_accepted],
            }
            for name, row in zip(names, audits, strict=True)
        ],
    }


def _judged(one: Judged) -> dict[str, Any]:
    mutant = one.mutant
    return {
        "part": one.part,
        "kind": mutant.kind,
        "call": mutant.call,
        "tool": mutant.tool,
        "argument": mutant.argument,
        "old": mutant.old,
        "new": mutant.new,
        "trace": one.trace,
        "effects": one.effects,
        "reason": one.reason,
    }
