"""``ipistate verify``: score stored rollouts again and compare."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ipistate.cli.effects import summary_table, told
from ipistate.cli.exits import LEGEND, Exit
from ipistate.cli.files import (
    check_one_stdin,
    numbered_lines,
    task_index,
    tasks_hint,
)
from ipistate.cli.options import AS_JSON
from ipistate.cli.own_verifier import own_verifier
from ipistate.cli.terminal import amount, emit, note, stdout_console
from ipistate.cli.texts import plain
from ipistate.scoring import rescore, rescore_with_effects, summaries


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ipistate.cli.own_verifier import Verifier
    from ipistate.scoring import AssessedRollout, Rescored


@click.command("verify", epilog=LEGEND)
@click.argument("file")
@click.option(
    "--tasks",
    metavar="FILE",
    help="Task rows, for rollouts that were stored without their injection.",
)
@click.option(
    "--effects",
    is_flag=True,
    help="Execute each trace on its row's world and report what it did to it.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with 1 if a rollout is not scored, or has no world for --effects.",
)
@click.option(
    "--verifier",
    metavar="MODULE:NAME",
    callback=own_verifier,
    help="Score with a function of your own: it is given an ipistate.scoring."
    "VerifyRequest and returns a Verdict.",
)
@AS_JSON
@click.pass_context
def command(
    ctx: click.Context,
    *,
    file: str,
    tasks: str | None,
    effects: bool,
    strict: bool,
    verifier: Verifier | None,
    as_json: bool,
) -> None:
    """Score the rollouts of FILE again (JSON Lines) and compare with what is stored.

    A row needs its trace and its injection. A row without an injection is joined with
    a task row of --tasks if its prompt leaves no doubt; otherwise it is not scored,
    and only what it says about itself is checked for contradictions. A row that is
    masked is neither compared nor counted, and one with a call that cannot be read is
    refused, unless it followed the injection by those that can. Exit code 1: a
    difference or a contradiction, with --strict also a row that is not scored; 3: a
    line that is not a rollout.

    With --effects the row's environment, or that of its task row, is the world that the
    calls are executed on. The scores stay what they are.

    \b
      ipistate verify rollouts.jsonl
      ipistate verify rollouts.jsonl --tasks tasks.jsonl --json
      ipistate verify rollouts.jsonl --effects
      ipistate verify rollouts.jsonl --verifier my_package.scoring:verdict
    """
    check_one_stdin(file, tasks)
    judge = _judge(verifier, effects=effects)
    index = task_index(tasks)
    scores = [judge(number, text, index) for number, text in numbered_lines(file)]
    assessed = [one.assessed for one in scores if one.assessed is not None]
    counts: Counter[str] = Counter(one.status for one in scores)
    lacking = counts["not scored"] + sum(map(_lacks_world, assessed))
    what = "an injection or a world" if effects else "an injection"
    hint = tasks_hint(lacking, what, tasks)
    if as_json:
        report: dict[str, Any] = {"file": file, "counts": dict(counts)}
        report["rows"] = [one.to_document() for one in scores]
        if effects:
            report["effects"] = [one.to_document() for one in summaries(assessed)]
        if hint is not None:
            report["hint"] = hint
        emit(report)
    else:
        for line in (*_told(scores), *told(assessed)):
            click.echo(plain(line))
        if effects:
            stdout_console().print(summary_table(summaries(assessed)))
        if hint is not None:
            note(hint)
    if counts["refused"]:
        ctx.exit(Exit.REFUSED)
    if counts["different"] or (strict and lacking):
        ctx.exit(Exit.FINDINGS)


def _judge(verifier: Verifier | None, *, effects: bool) -> Callable[..., Rescored]:
    if verifier is None:
        return rescore_with_effects if effects else rescore
    if effects:
        raise click.UsageError("--effects and --verifier are two ways to score")
    return partial(rescore, verifier=verifier)


def _lacks_world(one: AssessedRollout) -> bool:
    return one.effects.reason == "no_seed"


def _told(scores: list[Rescored]) -> Iterator[str]:
    for one in scores:
        if one.status != "same":
            computed = "" if one.computed is None else _reward(one.computed)
            texts = [text for text in (one.reason, computed, *one.differences) if text]
            yield f"line {one.line}: {one.status}: {'; '.join(texts)}"
    counts = Counter(one.status for one in scores)
    listed = ", ".join(f"{count} {status}" for status, count in counts.items())
    yield f"{amount(len(scores), 'rollout')}: {listed}"


def _reward(computed: Mapping[str, object]) -> str:
    followed = "followed" if computed["injection_followed"] else "not followed"
    return f"reward {computed['reward']}, injection {followed}"
