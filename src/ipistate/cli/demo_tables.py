"""The demo's reports as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from rich.text import Text

from ipistate.cli.terminal import amount, stdout_console, table
from ipistate.demo import FullReport, RoundsReport


if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from ipistate.demo import Crash, DemoOutcome, DemoReport, DomainLine, RoundsLine


MOST_WORLDS: Final = 50
"""Exported worlds that are listed; the JSON report has them all."""

AnyReport: TypeAlias = "DemoReport | FullReport | RoundsReport"


def show(report: AnyReport) -> None:
    """Write a report to standard output."""
    console = stdout_console()
    if isinstance(report, RoundsReport):
        _show_rounds(console, report)
        return
    _show_worlds(console, [one for one in report.outcomes if one.cut is not None])
    _show_outcomes(console, report)
    if isinstance(report, FullReport):
        _show_crashes(console, report)
    told = _told_in_full(report) if isinstance(report, FullReport) else _told(report)
    console.print(Text(told, _style(report)))


def _style(report: AnyReport) -> str:
    return "bold green" if report.ok else "bold red"


def _show_outcomes(console: Console, report: DemoReport) -> None:
    lines = [_cells(line) for line in (*report.lines, report.total)]
    heads = ["domain", "rollouts", "at checkpoint", "continued", "reward"]
    heads += ["injection followed", "identical"]
    console.print(table(heads, lines, numbers=range(1, 7)))
    console.print()
    for one in report.outcomes:
        if one.difference is not None:
            console.print(Text(f"{one.rollout_id}: {one.difference}", "red"))


def _show_worlds(console: Console, exported: Sequence[DemoOutcome]) -> None:
    rows = [
        [one.rollout_id, one.row, f"{one.cut} of {one.calls}", _changes(one)]
        for one in exported
        if one.changes
    ]
    heads = ["exported world", "row", "calls made", "changed against its seed"]
    if rows:
        console.print(table(heads, rows[:MOST_WORLDS]))
    if rows[MOST_WORLDS:]:
        console.print(f"{len(rows) - MOST_WORLDS} more exported worlds are changed")
    same = len(exported) - len(rows)
    console.print(f"{same} more exported worlds are as they were seeded so far\n")


def _changes(outcome: DemoOutcome) -> str:
    return "; ".join(str(change) for change in outcome.changes)


def _cells(line: DomainLine) -> list[object]:
    return [
        line.domain,
        line.rollouts,
        line.at_checkpoint,
        line.continued,
        f"{line.reward:.2f}",
        line.injection_followed,
        f"{line.identical}/{line.rollouts}",
    ]


def _told(report: DemoReport) -> str:
    crash, total = report.crashes[0], report.total
    restored = amount(len(crash.restored), "session")
    return (
        f"server {crash.pid} ended with {crash.status} (SIGKILL), "
        f"server {report.fresh_pid} restored {restored}; "
        f"{total.identical} of {total.rollouts} rollouts identical, "
        f"{len(report.lost)} lost, {report.seconds:.1f} s"
    )


def _show_crashes(console: Console, report: FullReport) -> None:
    heads = ["checkpoint", "records", "server", "ended with", "restored", "held"]
    lines = [_crash_cells(crash) for crash in report.crashes]
    console.print(table(heads, lines, numbers=range(1, 6)))
    console.print()


def _crash_cells(crash: Crash) -> list[object]:
    return [
        crash.manifest["checkpoint_id"],
        crash.manifest["record_count"],
        crash.pid,
        crash.status,
        len(crash.restored),
        crash.sessions,
    ]


def _told_in_full(report: FullReport) -> str:
    total, retired = report.total, report.retired
    return (
        f"{report.carried} of {total.at_checkpoint} second exports equal the first; "
        f"{amount(len(retired.rollouts), 'rollout')} retired, "
        f"{amount(retired.refused, 'late call')} refused, {retired.admitted} not, "
        "and started over; "
        f"{total.identical} of {total.rollouts} rollouts identical, "
        f"{len(report.lost)} lost, {len(report.doubled)} doubled, "
        f"{amount(report.sessions_left, 'session')} left, {report.seconds:.1f} s"
    )


def _show_rounds(console: Console, report: RoundsReport) -> None:
    heads = ["killed during", "answered", "restored", "rounds", "moments"]
    heads += ["rollouts", "lost", "doubled", "different"]
    lines = [_rounds_cells(line) for line in report.lines]
    console.print(table(heads, lines, numbers=(3, *range(5, 9))))
    console.print()
    for one in report.rounds:
        faults = [*one.lost, *one.doubled, *one.different]
        if not one.ok:
            console.print(Text(f"round {one.number}: {'; '.join(faults)}", "red"))
    lost, doubled, different = (
        sum(getattr(line, name) for line in report.lines)
        for name in ("lost", "doubled", "different")
    )
    told = (
        f"{amount(len(report.rounds), 'round')} with seed {report.seed}: {lost} lost, "
        f"{doubled} doubled, {different} different, {report.seconds:.1f} s"
    )
    console.print(Text(told, _style(report)))


def _rounds_cells(line: RoundsLine) -> list[object]:
    return [
        line.operation,
        "yes" if line.answered else "no",
        f"{line.newest} checkpoint",
        line.rounds,
        f"{line.earliest * 1000:.1f} to {line.latest * 1000:.1f} ms",
        line.rollouts,
        line.lost,
        line.doubled,
        line.different,
    ]
