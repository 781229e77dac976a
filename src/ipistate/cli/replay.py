"""``ipistate replay``: execute stored rollouts again and compare the replies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from ipistate.cli.exits import LEGEND, Exit
from ipistate.cli.files import (
    check_one_stdin,
    numbered_lines,
    size_of,
    task_index,
    tasks_hint,
)
from ipistate.cli.imported import OWN_TOOLS, chosen_tools
from ipistate.cli.options import AS_JSON, strict_tools
from ipistate.cli.progress import reading
from ipistate.cli.terminal import amount, emit, note
from ipistate.kernel import JsonObject, trusted_array, trusted_object
from ipistate.scoring import Replayed, ReplayTotals, replay_rollout


if TYPE_CHECKING:
    from collections.abc import Iterator

_BEFORE: Final = 40
_AFTER: Final = 80


@click.command("replay", epilog=LEGEND)
@click.argument("file")
@click.option(
    "--tasks",
    metavar="FILE",
    help="Task rows, for rollouts that were stored without their environment.",
)
@OWN_TOOLS
@click.option(
    "--strict",
    is_flag=True,
    help="Refuse arguments that are not what the tool's schema says, and exit with 1 if "
    "a rollout has no world.",
)
@click.option("--diff", is_flag=True, help="Show what each call changed in the world.")
@AS_JSON
@click.pass_context
def command(
    ctx: click.Context,
    *,
    file: str,
    tasks: str | None,
    strict: bool,
    diff: bool,
    as_json: bool,
) -> None:
    """Execute the tool calls of the rollouts in FILE again and compare every reply.

    A line is a rollout with a trace: Responses API items in "response.output", or
    messages in "messages" or "response.choices". A trace with a call that cannot be read
    is refused. The world is the rollout's own member "environment", or that of the task
    row of --tasks that has its prompt, if there is no doubt; without one a rollout is
    not executed. Ids that tools mint are compared by renaming.

    A call whose arguments are not a JSON object, or which was cut off, is not executed;
    it is reported, and the next one goes on. The first reply of a rollout that differs ends it, and is
    shown with both texts around the difference; with --json they are whole. Exit code
    1: a reply differs, or with --strict a rollout has no world; 3: a line that is not a
    rollout.

    \b
      ipistate replay rollouts.jsonl --tasks tasks.jsonl
      ipistate replay rollouts.jsonl --diff
    """
    check_one_stdin(file, tasks)
    index, totals = task_index(tasks), ReplayTotals()
    tools = strict_tools(ctx, "--strict") if strict else chosen_tools(ctx)
    written = Replayed.to_document_with_changes if diff else Replayed.to_document
    told = _told_with_changes if diff else _told
    documents: list[JsonObject] = []
    with reading(size_of(file)) as watched:
        rollouts = (
            replay_rollout(number, text, index, tools=tools)
            for number, text in watched.over(numbered_lines(file))
        )
        for one in totals.counting(rollouts):
            if as_json:
                documents.append(written(one))
            else:
                watched.write(told(one))
    lacking = totals.statuses["no world"]
    hint = tasks_hint(lacking, "a world", tasks)
    if as_json:
        counts, rows = JsonObject(totals.statuses), trusted_array(documents)
        more = {} if hint is None else {"hint": hint}
        emit(trusted_object({"file": file, "counts": counts, "rows": rows, **more}))
    else:
        click.echo(_summary(totals))
        if hint is not None:
            note(hint)
    if totals.statuses["refused"]:
        ctx.exit(Exit.REFUSED)
    if totals.statuses["different"] or (strict and lacking):
        ctx.exit(Exit.FINDINGS)


def _told(one: Replayed) -> Iterator[str]:
    if one.reason is not None:
        yield f"line {one.line}: {one.status}: {one.reason}"
    for call in one.refused():
        yield f"line {one.line}: call {call.call} ({call.tool}) refused: {call.reason}"
    found = one.divergence
    if found is not None:
        where = f"after {amount(found.offset, 'character')}"
        where = where if found.path is None else f"at {found.path}"
        yield f"line {one.line}: different: call {one.calls} ({one.tool}) {where}"
        yield f"  recorded {_around(found.recorded, found.offset)}"
        yield f"  executed {_around(found.executed, found.offset)}"


def _told_with_changes(one: Replayed) -> Iterator[str]:
    yield from _told(one)
    if one.status == "same":
        yield f"line {one.line}: same"
    for call in one.changes():
        lines = call.diff.lines()
        changed = "changed" if lines else "changed nothing"
        yield f"  call {call.call} ({call.tool}) {changed}"
        yield from (f"    {line}" for line in lines)


def _around(text: str, offset: int) -> str:
    start, end = max(0, offset - _BEFORE), offset + _AFTER
    more = "…" if end < len(text) else ""
    return f"{'…' if start else ''}{text[start:end]}{more}"


def _summary(totals: ReplayTotals) -> str:
    rollouts = amount(totals.statuses.total(), "rollout")
    listed = ", ".join(f"{count} {name}" for name, count in totals.statuses.items())
    told = [f"{amount(totals.equal, 'reply', 'replies')} equal"]
    if totals.refused:
        told.append(f"{amount(totals.refused, 'call')} refused")
    told.append(f"{amount(totals.renamed, 'id')} renamed")
    return f"{rollouts}: {listed}; {', '.join(told)}"
