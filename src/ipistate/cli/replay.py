"""``ipistate replay``: execute stored rollouts again and compare the replies."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import attrs
import click

from ipistate.cli.exits import LEGEND, Exit
from ipistate.cli.files import numbered_lines, read_tasks
from ipistate.cli.rollouts import TaskIndex, read_rollout
from ipistate.cli.terminal import amount, emit, plain
from ipistate.codec import decode
from ipistate.environment import Environment
from ipistate.errors import DecodeError, IpiStateError
from ipistate.renaming import Renaming
from ipistate.transition import call_tool
from ipistate.values import JsonArray, JsonObject, JsonValue


if TYPE_CHECKING:
    from collections.abc import Iterator

Status = Literal["same", "different", "no world", "unreadable", "refused"]


@attrs.frozen(kw_only=True)
class Divergence:
    """The first reply that differs."""

    call: int
    tool: str
    recorded: str
    executed: str


@attrs.frozen(kw_only=True)
class Replayed:
    """What became of one line."""

    line: int
    status: Status
    calls: int = 0
    """Calls whose replies were compared and are equal."""
    renamed: int = 0
    """Ids that the recording minted otherwise."""
    reason: str | None = None
    divergence: Divergence | None = None


class RecordedCall(NamedTuple):
    """A call of a trace with the reply that was recorded for it."""

    name: str
    arguments: str
    reply: str | None


@click.command("replay", epilog=LEGEND)
@click.argument("file")
@click.option(
    "--tasks",
    metavar="FILE",
    help="Task rows with the worlds of rollouts that were stored without.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON document.")
@click.pass_context
def command(ctx: click.Context, *, file: str, tasks: str | None, as_json: bool) -> None:
    """Execute the tool calls of the rollouts in FILE again and compare every reply.

    The world is the rollout's own member "environment", or that of the task row of
    --tasks that has its prompt, if there is no doubt. Ids that tools mint are compared
    by renaming. Exit code 1: a reply differs; 3: a line that is not a rollout.

    \b
      ipistate replay rollouts.jsonl --tasks tasks.jsonl
    """  # noqa: D301
    index = TaskIndex(read_tasks(tasks) if tasks else ())
    lines = numbered_lines(file)
    rows = [replayed(number, text, index) for number, text in lines]
    counts: Counter[str] = Counter(one.status for one in rows)
    if as_json:
        document = [attrs.asdict(one) for one in rows]
        emit({"file": file, "counts": dict(counts), "rows": document})
    else:
        for line in _told(rows):
            click.echo(plain(line))
    if counts["refused"]:
        ctx.exit(Exit.REFUSED)
    if counts["different"]:
        ctx.exit(Exit.FINDINGS)


def replayed(line: int, text: bytes, tasks: TaskIndex) -> Replayed:
    """Execute one line's calls again, as far as its world is known."""
    try:
        row = read_rollout(text)
    except IpiStateError as error:
        return Replayed(line=line, status="refused", reason=str(error))
    calls = recorded_calls(row)
    if calls is None:
        reason = "it has no list response.output"
        return Replayed(line=line, status="refused", reason=reason)
    world = _world(row, tasks)
    if isinstance(world, str):
        return Replayed(line=line, status="no world", reason=world)
    return _executed(line, world, calls)


def _world(row: JsonObject, tasks: TaskIndex) -> Environment | str:
    own = row.get("environment")
    if isinstance(own, JsonObject):
        return Environment(own)
    task = tasks.find(row)
    if isinstance(task, str):
        return f"it carries no environment, and {task}"
    return task.environment


def recorded_calls(row: JsonObject) -> list[RecordedCall] | None:
    """Return the function calls of a rollout's response, in order."""
    response = row.get("response")
    output = response.get("output") if isinstance(response, JsonObject) else None
    if not isinstance(output, JsonArray):
        return None
    items = [item for item in output if isinstance(item, JsonObject)]
    replies = {
        item.get("call_id"): item.get("output")
        for item in items
        if item.get("type") == "function_call_output"
    }
    return [
        RecordedCall(
            str(item.get("name")),
            str(item.get("arguments")),
            _said(replies.get(item.get("call_id"))),
        )
        for item in items
        if item.get("type") == "function_call"
    ]


def _said(body: JsonValue) -> str | None:
    # Agents record the whole body of the reply, {"output": "..."}; some only its text.
    if not isinstance(body, str):
        return None
    try:
        document: Any = decode(body)
    except DecodeError:
        return body
    if isinstance(document, JsonObject) and list(document) == ["output"]:
        return str(document["output"])
    return body


def _executed(line: int, world: Environment, calls: list[RecordedCall]) -> Replayed:
    names = Renaming()
    for number, call in enumerate(calls):
        try:
            arguments = decode(names.applied(call.arguments))
        except DecodeError as error:
            reason = f"call {number} ({call.name}): its arguments are not JSON: {error}"
            return Replayed(line=line, status="unreadable", calls=number, reason=reason)
        done = call_tool(world, call.name, arguments)
        world = done.environment
        if call.reply is not None:
            learnt = names.extended(call.reply, done.output)
            if learnt is None:
                divergence = Divergence(
                    call=number,
                    tool=call.name,
                    recorded=call.reply,
                    executed=done.output,
                )
                return Replayed(
                    line=line, status="different", calls=number, divergence=divergence
                )
            names = learnt
    renamed = sum(old != new for old, new in names.ids.items())
    return Replayed(line=line, status="same", calls=len(calls), renamed=renamed)


def _told(rows: list[Replayed]) -> Iterator[str]:
    for one in rows:
        if one.divergence is not None:
            first = one.divergence
            yield f"line {one.line}: different: call {first.call} ({first.tool})"
            yield f"  recorded {first.recorded}"
            yield f"  executed {first.executed}"
        elif one.reason is not None:
            yield f"line {one.line}: {one.status}: {one.reason}"
    counts = Counter(one.status for one in rows)
    listed = ", ".join(f"{count} {status}" for status, count in counts.items())
    calls = sum(one.calls for one in rows)
    renamed = sum(one.renamed for one in rows)
    equal = f"{amount(calls, 'reply', 'replies')} equal"
    shown = f"{equal}, {amount(renamed, 'id')} renamed"
    yield f"{amount(len(rows), 'rollout')}: {listed}; {shown}"
