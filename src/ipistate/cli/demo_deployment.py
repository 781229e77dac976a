"""The demo of a whole deployment: what it needs, and its reports as tables."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from rich.text import Text

from ipistate.cli.terminal import amount, stdout_console, table
from ipistate.demo import (
    TOPOLOGIES,
    DeploymentReport,
    DeploymentRoundsReport,
    RealModelReport,
    deployed_rollouts,
    run_deployment,
    run_deployment_rounds,
    run_real_model,
)


if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from rich.console import Console

    from ipistate.demo import DemoWatcher, Topology

AnyDeploymentReport: TypeAlias = (
    "DeploymentReport | DeploymentRoundsReport | RealModelReport"
)


def check_deployment(**others: object) -> None:
    """Refuse options of the other demos.

    Raises:
        UsageError: One of them is given.
    """
    for name, value in others.items():
        if value:
            message = f"--deployment plays the built-in rows; leave out --{name}"
            raise click.UsageError(message)


def check_weights(
    weights: Path | None, topology: Topology, *, deployment: bool, rounds: int | None
) -> None:
    """Refuse a real model where there is none, or where it cannot be started.

    Raises:
        UsageError: It is not for this demo, or there is no engine for it.
    """
    if weights is None:
        return
    if not deployment or rounds is not None or topology != TOPOLOGIES[0]:
        message = "--weights is for one crash of a native --deployment"
        raise click.UsageError(message)
    if find_spec("xllamacpp") is None:
        message = "--weights needs an engine: pip install xllamacpp"
        raise click.UsageError(message)


def deployed(
    topology: Topology,
    rollouts: int,
    root: Path,
    watch: DemoWatcher,
    *,
    rounds: int | None,
    seed: int,
    weights: Path | None = None,
) -> Coroutine[Any, Any, AnyDeploymentReport]:
    """Return the demo that was chosen: two crashes, rounds, or a real model."""
    if weights is not None:
        return run_real_model(root, watch, str(weights.resolve()), rollouts)
    if rounds is None:
        return run_deployment(deployed_rollouts(rollouts), root, watch, topology)
    return run_deployment_rounds(
        rollouts, root, watch, topology, count=rounds, seed=seed
    )


def show_deployment(report: AnyDeploymentReport) -> None:
    """Write a report to standard output."""
    console = stdout_console()
    if isinstance(report, RealModelReport):
        console.print(Text(_real(report), "bold green" if report.ok else "bold red"))
        return
    if isinstance(report, DeploymentRoundsReport):
        told = _show_deployment_rounds(console, report)
    else:
        told = _show_lives(console, report)
    for one in report.outcomes:
        if one.results != 1 or not one.is_identical:
            came = f"{one.name}: {amount(one.results, 'result')}, not the expected one"
            console.print(Text(came, "red"))
    console.print(Text(told, "bold green" if report.ok else "bold red"))


def _real(report: RealModelReport) -> str:
    cuts = f"{report.cut} generations cut, {report.cut_failed} not"
    return (
        f"real model: {report.in_flight} of {report.rollouts} episodes in flight, "
        f"{cuts}, {report.cut_skipped} constrained; four servers killed; "
        f"{report.tokens_saved:,} tokens saved; {report.restored} episodes restored; "
        f"{report.lost} lost, {report.doubled} doubled; "
        f"{report.captured} calls captured with {report.tokens:,} tokens, "
        f"{report.not_captured} not; {sum(report.left_over.values())} left over, "
        f"{report.seconds:.0f} s"
    )


def _show_lives(console: Console, report: DeploymentReport) -> str:
    took = report.milliseconds
    lines = [
        [
            name,
            report.committed[place],
            report.restored[place],
            *(f"{took[f'{what} {name}']:.1f}" for what in _TIMED),
        ]
        for place, name in enumerate(("step-1", "step-2"))
    ]
    heads = ["checkpoint", "committed", "restored", *(f"{one} ms" for one in _TIMED)]
    console.print(table(heads, lines, numbers=range(1, 6)))
    console.print()
    same = sum(one.is_identical for one in report.outcomes)
    return (
        f"{report.topology}: {report.in_flight} episodes in flight at the checkpoint, "
        f"{report.restarts} not kept; four servers killed twice; "
        f"{same} of {len(report.outcomes)} rollouts identical, {len(report.lost)} lost, "
        f"{len(report.doubled)} doubled; {amount(report.calls, 'call')} of the model: "
        f"{report.calls_uninterrupted} as without interruption and "
        f"{report.undelivered} undelivered ones again; "
        f"{sum(report.left_over.values())} left over, {report.seconds:.1f} s"
    )


_TIMED = ("prepare", "commit", "restore")


def _show_deployment_rounds(console: Console, report: DeploymentRoundsReport) -> str:
    lines: list[list[object]] = []
    for operation in dict.fromkeys(one.operation for one in report.rounds):
        found = [one for one in report.rounds if one.operation == operation]
        moments = [one.milliseconds for one in found]
        lines.append(
            [
                operation,
                len(found),
                f"{min(moments):.1f} to {max(moments):.1f} ms",
                sum(one.had_ended for one in found),
                sum(len(one.killed) for one in found),
                sum(one.restored for one in found),
            ]
        )
    heads = ["killed during", "rounds", "moments", "over by then", "servers killed"]
    console.print(table([*heads, "episodes restored"], lines, numbers=(1, 3, 4, 5)))
    console.print()
    same = sum(one.is_identical for one in report.outcomes)
    lost = sum(not one.results for one in report.outcomes)
    doubled = sum(one.results > 1 for one in report.outcomes)
    return (
        f"{report.topology}: {amount(len(report.rounds), 'round')} with seed "
        f"{report.seed}; {same} of {len(report.outcomes)} rollouts identical, "
        f"{lost} lost, {doubled} doubled, "
        f"{sum(report.left_over.values())} left over, {report.seconds:.1f} s"
    )
