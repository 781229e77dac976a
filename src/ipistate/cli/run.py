"""``ipistate run``: a policy plays task rows, and every rollout is scored."""

from __future__ import annotations

import asyncio

from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ipistate.cli.exits import LEGEND, Exit, RefusedInputError, refusing
from ipistate.cli.files import rereadable
from ipistate.cli.imported import NAMED_TOOLS
from ipistate.cli.interrupt import run_stoppably
from ipistate.cli.options import AS_JSON, FILE, token_options
from ipistate.cli.output_files import check_writable
from ipistate.cli.policies import Chosen, with_policy
from ipistate.cli.run_limits import RunLimits, duration, with_limits
from ipistate.cli.run_progress import RunProgress, run_progress
from ipistate.cli.terminal import amount, emit, note
from ipistate.cli.tokens import secret_of
from ipistate.errors import IpiStateError
from ipistate.kernel import JsonObject
from ipistate.rollouts import (
    Configuration,
    Ending,
    OpenFiles,
    Records,
    RunFiles,
    RunOrder,
    RunOutcome,
    Server,
    needed,
    open_tasks,
    opened,
    run,
)


if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ipistate.policies import PolicyOptions

_TICK_SECONDS: Final = 0.25


@click.command("run", epilog=LEGEND)
@click.option(
    "--tasks", type=FILE, required=True, help="Task rows to play (JSON Lines)."
)
@click.option(
    "-o",
    "--output",
    type=FILE,
    required=True,
    help="File for the scored rows; failures, metrics and the run's own files stand "
    "beside it, under names made from this one.",
)
@with_policy
@with_limits
@click.option(
    "--num-repeats",
    type=click.IntRange(1, 100_000),
    default=1,
    show_default=True,
    help="How many rollouts each row has.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 10_000),
    default=16,
    show_default=True,
    help="How many rollouts are played at a time.",
)
@click.option(
    "--max-steps",
    type=click.IntRange(1, 100_000),
    default=50,
    show_default=True,
    help="Most turns of the policy in a rollout; a longer one is cut off.",
)
@click.option(
    "--max-failures",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="How many rollouts have to fail, one after another, to end the run.",
)
@click.option(
    "--resume", is_flag=True, help="Continue the run whose rows are in --output."
)
@click.option(
    "--url",
    help="Where a server of sessions listens; without it the run starts its own.",
)
@click.option(
    "--effects",
    is_flag=True,
    help="Have the run's own server say what the calls did to the row's world.",
)
@NAMED_TOOLS
@click.option(
    "--checkpoint-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep checkpoints in this directory: --resume continues from the last turn.",
)
@click.option(
    "--checkpoint-every",
    metavar="TIME",
    callback=duration,
    default="30s",
    show_default=True,
    help="How long from one checkpoint to the next, as 30s, 5m or 1h.",
)
@token_options("the server at --url, if it is to write checkpoints")
@AS_JSON
def command(
    chosen: Chosen,
    *,
    limits: RunLimits,
    tasks: Path,
    output: Path,
    num_repeats: int,
    concurrency: int,
    max_steps: int,
    max_failures: int,
    resume: bool,
    url: str | None,
    effects: bool,
    table: str | None,
    checkpoint_dir: Path | None,
    checkpoint_every: float,
    token_file: Path | None,
    token_env: str | None,
    as_json: bool,
) -> None:
    """Let a policy play every task row, and write each scored rollout as a row.

    Rollouts that the infrastructure fails are masked: they stand in _failures.jsonl,
    have no row, and run again with --resume. The metrics of all rows are written to
    _aggregate_metrics.json.

    Ctrl-C stops at the next turns and leaves a run that --resume continues; a second
    one ends at once. With --checkpoint-dir no turn before the last checkpoint is played
    again, even if the server, the run or both were killed. Exit code 1: a rollout has
    no row; 4: interrupted.

    \b
      ipistate run --tasks tasks.jsonl -o rollouts.jsonl --policy careful
      ipistate run --tasks tasks.jsonl -o rollouts.jsonl --policy openai \\
        --model-url http://localhost:8000/v1 --model MODEL --num-repeats 4 \\
        --checkpoint-dir checkpoints
      ipistate run ... --resume
    """
    _check_files(tasks, output)
    tasks = rereadable(tasks)
    token = secret_of(token_file, token_env)
    _check_together(url, token, checkpoint_dir, table, effects=effects)
    concurrency = _affordable(concurrency, chosen)
    with _refusing():
        if url is not None:
            Server(url)
        check_writable(str(output))
        if checkpoint_dir is not None:
            with refusing(str(checkpoint_dir)):
                checkpoint_dir.mkdir(parents=True, exist_ok=True)
        rows = open_tasks(tasks)
        configuration = Configuration(
            tasks_sha256=rows.sha256,
            tasks=len(rows),
            num_repeats=num_repeats,
            max_steps=max_steps,
            policy=chosen.name,
            policy_options=_fingerprint(chosen, tasks, table),
            seed=chosen.seed,
            effects=effects,
            limit=limits.choice.limit,
            sample=limits.choice.sample,
        )
        options = chosen.options(rows)
        order = partial(
            RunOrder,
            tasks=rows,
            concurrency=concurrency,
            most_failures=max_failures,
            url=url,
            token=token,
            checkpoint_dir=checkpoint_dir,
            checkpoint_seconds=checkpoint_every,
            budget=limits.budget,
            tools=table,
        )
        with opened(RunFiles(output), configuration, resume=resume) as records:
            outcome = _run(order, chosen, options, records)
    _tell(outcome, output, as_json=as_json)
    code = _code(outcome)
    if code:
        click.get_current_context().exit(code)


def _check_files(tasks: Path, output: Path) -> None:
    if "-" in (str(tasks), str(output)):
        message = (
            "--tasks and --output are files, so that --resume can read them; name one"
        )
        raise click.UsageError(message)


def _fingerprint(chosen: Chosen, tasks: Path, table: str | None) -> JsonObject:
    # Other tools give other replies. Runs with the built-in ones keep their names.
    told = chosen.fingerprint(tasks)
    return told if table is None else JsonObject({**told, "tools": table})


def _check_together(
    url: str | None,
    token: str | None,
    checkpoint_dir: Path | None,
    table: str | None,
    *,
    effects: bool,
) -> None:
    if url is None and token is not None:
        raise click.UsageError("a token is for the server at --url; leave it out")
    if url is not None and checkpoint_dir is not None and token is None:
        message = "checkpoints of the server at --url need --token-file or --token-env"
        raise click.UsageError(message)
    if url is not None and effects:
        raise click.UsageError("--effects is for the server that is started, not --url")
    if url is not None and table is not None:
        raise click.UsageError("--tools is for the server that is started, not --url")


def _affordable(concurrency: int, chosen: Chosen) -> int:
    endpoint = 0 if chosen.endpoint is None else chosen.endpoint.concurrency
    files = OpenFiles.wanted(concurrency, endpoint)
    most = files.rollouts(concurrency, endpoint)
    told = f"the system allows {files.limit} open files (ulimit -n)"
    if most < 1:
        message = f"{told}, and a run needs {needed(1, endpoint)} at least; raise it"
        raise click.UsageError(message)
    if most < concurrency:
        need = needed(concurrency, endpoint)
        note(
            f"run: {told}, so --concurrency is {most} and not {concurrency}; "
            f"raise it to {need} for that"
        )
    return most


@contextmanager
def _refusing() -> Generator[None]:
    try:
        yield
    except IpiStateError as error:
        raise RefusedInputError(f"{error.message} [{error.code}]") from error


def _run(
    order: Callable[..., RunOrder],
    chosen: Chosen,
    options: PolicyOptions,
    records: Records,
) -> RunOutcome:
    configuration, stop = records.configuration, asyncio.Event()
    for path in records.torn:
        note(f"run: an incomplete last line has been moved to {path}")
    if records.done:
        done = f"{len(records.done)} of {configuration.rollouts}"
        note(f"run: {done} rollouts have rows already")

    async def work(watch: RunProgress) -> RunOutcome:
        ticking = asyncio.create_task(_ticking(watch))
        try:
            repeats = configuration.num_repeats
            async with chosen.opened(options, repeats) as policies:
                return await run(order(policies=policies), records, watch, stop)
        finally:
            ticking.cancel()

    with run_progress(configuration.rollouts, records.tally) as watch:

        def stopping() -> bool:
            # Before anything is played there is no turn to stop at.
            if watch.playing:
                watch.note("stopping at the next turns; once more ends at once")
                stop.set()
            return watch.playing

        return run_stoppably(work(watch), stopping)


async def _ticking(watch: RunProgress) -> None:
    while True:
        watch.tick()
        await asyncio.sleep(_TICK_SECONDS)


def _tell(outcome: RunOutcome, output: Path, *, as_json: bool) -> None:
    tally, files = outcome.tally, RunFiles(output)
    if as_json:
        emit(
            {
                "output": str(output),
                "failures": str(files.failures),
                "metrics": str(files.metrics),
                "ending": str(outcome.ending),
                "planned": outcome.planned,
                "earlier": outcome.earlier,
                "done": outcome.done,
                "unfinished": outcome.unfinished,
                "failed": outcome.failed,
                "continued": outcome.continued,
                "restarts": outcome.restarts,
                "mean_reward": tally.mean_reward,
                "injection_followed": tally.followed,
                "masked": tally.masked,
                "tokens": tally.tokens,
                "seconds": round(outcome.seconds, 3),
            }
        )
    mean = "-" if tally.mean_reward is None else f"{tally.mean_reward:.3f}"
    rows = f"{outcome.done} of {amount(outcome.planned, 'rollout')}"
    note(
        f"run: {rows} in {output}, mean reward {mean}, injection followed in "
        f"{tally.followed}, {tally.tokens:,} tokens"
    )
    if tally.masked:
        masked = amount(tally.masked, "row")
        note(f"run: {masked} masked, whose last reply the endpoint's filter blocked")
    if outcome.failed:
        failed = amount(outcome.failed, "attempt")
        note(f"run: {failed} failed and masked in {files.failures}")
    if outcome.unfinished:
        left = amount(outcome.unfinished, "rollout")
        note(f"run: {_WHY[outcome.ending]}; {left} left for --resume")


_WHY: Final = {
    Ending.COMPLETE: "what failed can run again",
    Ending.INTERRUPTED: "interrupted",
    Ending.SERVER_GONE: "the server of sessions does not answer any more",
    Ending.BUDGET_SPENT: "a budget is spent",
    Ending.FAILING: "one rollout after another has failed",
}


def _code(outcome: RunOutcome) -> Exit:
    if outcome.ending is Ending.INTERRUPTED:
        return Exit.INTERRUPTED
    return Exit.FINDINGS if outcome.unfinished else Exit.OK
