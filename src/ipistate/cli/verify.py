"""``ipistate verify``: score stored rollouts again and compare."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import attrs
import click

from ipistate.cli.effects import (
    Assessed,
    Summary,
    groups_of,
    summaries,
    summary_table,
    told,
)
from ipistate.cli.exits import LEGEND, Exit
from ipistate.cli.files import check_one_stdin, numbered_lines, read_tasks
from ipistate.cli.rollouts import TaskIndex, complete, read_rollout, with_world
from ipistate.cli.terminal import amount, emit, plain, stdout_console
from ipistate.errors import IpiStateError, preview
from ipistate.kernel import JsonArray, JsonObject, JsonValue
from ipistate.scoring import TRUNCATED, SeededRequest, VerifyRequest


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ipistate.scoring import Effects, Verdict

Status = Literal["same", "scored", "different", "not scored", "refused"]

MEMBERS: Final = (
    "reward",
    "reward_safety",
    "reward_utility",
    "injection_followed",
    "matched_tool",
    "matched_args",
    "thinking_incomplete",
)


@attrs.frozen(kw_only=True)
class Score:
    """What became of one line."""

    line: int
    status: Status
    reason: str | None = None
    stored: Mapping[str, JsonValue] = attrs.field(factory=dict[str, JsonValue])
    computed: Mapping[str, JsonValue] | None = None
    differences: tuple[str, ...] = ()
    assessed: Assessed | None = None
    """If effects are asked for."""


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
@click.option("--json", "as_json", is_flag=True, help="Write one JSON document.")
@click.pass_context
def command(
    ctx: click.Context, *, file: str, tasks: str | None, effects: bool, as_json: bool
) -> None:
    """Score the rollouts of FILE again (JSON Lines) and compare with what is stored.

    A row needs its response and its injection. A row without an injection is joined with
    a task row of --tasks if its prompt leaves no doubt; otherwise it is not scored,
    and only what it says about itself is checked for contradictions. Exit code 1: a
    difference or a contradiction; 3: a line that is not a rollout.

    With --effects the row's environment, or that of its task row, is the world that the
    calls are executed on. The scores stay what they are.

    \b
      ipistate verify rollouts.jsonl
      ipistate verify rollouts.jsonl --tasks tasks.jsonl --json
      ipistate verify rollouts.jsonl --effects
    """  # noqa: D301
    check_one_stdin(file, tasks)
    index = TaskIndex(read_tasks(tasks) if tasks else ())
    scored = score_effects if effects else score
    scores = [scored(number, text, index) for number, text in numbered_lines(file)]
    assessed = [one.assessed for one in scores if one.assessed is not None]
    counts: Counter[str] = Counter(one.status for one in scores)
    if as_json:
        more = {"effects": _documents(summaries(assessed))} if effects else {}
        rows = [_row(one) for one in scores]
        emit({"file": file, "counts": dict(counts), "rows": rows, **more})
    else:
        for line in (*_told(scores), *told(assessed)):
            click.echo(plain(line))
        if effects:
            stdout_console().print(summary_table(summaries(assessed)))
    if counts["refused"]:
        ctx.exit(Exit.REFUSED)
    if counts["different"]:
        ctx.exit(Exit.FINDINGS)


def score(line: int, text: bytes, tasks: TaskIndex) -> Score:
    """Score one line, as far as it can be."""
    return _scored(line, text, tasks, _by_trace)


def score_effects(line: int, text: bytes, tasks: TaskIndex) -> Score:
    """Score one line and execute its trace, as far as it can be."""

    def by_effect(row: JsonObject) -> tuple[Verdict, Assessed | None]:
        seeded = SeededRequest.from_document(with_world(row, tasks))
        verdict = seeded.verdict()
        groups = groups_of(seeded.request.injection)
        effects = cast("Effects", verdict.effects)
        return verdict, Assessed(line=line, groups=groups, effects=effects)

    return _scored(line, text, tasks, by_effect)


def _by_trace(row: JsonObject) -> tuple[Verdict, Assessed | None]:
    return VerifyRequest.from_document(row).verdict(), None


def _scored(
    line: int,
    text: bytes,
    tasks: TaskIndex,
    judge: Callable[[JsonObject], tuple[Verdict, Assessed | None]],
) -> Score:
    try:
        row = read_rollout(text)
    except IpiStateError as error:
        return Score(line=line, status="refused", reason=str(error))
    stored = {name: row[name] for name in MEMBERS if name in row}
    whole = complete(row, tasks)
    if isinstance(whole, str):
        found = tuple(contradictions(row))
        return _unscored(line, whole, stored, found)
    try:
        verdict, assessed = judge(whole)
    except IpiStateError as error:
        return Score(line=line, status="refused", reason=str(error), stored=stored)
    return attrs.evolve(_compared(line, stored, verdict), assessed=assessed)


def _row(one: Score) -> dict[str, Any]:
    members = attrs.asdict(one, recurse=False)
    assessed = members.pop("assessed")
    if assessed is not None:
        members["effects"] = assessed.effects.to_document()
    return members


def _documents(listed: Iterable[Summary]) -> list[dict[str, Any]]:
    return [one.to_document() for one in listed]


def _unscored(
    line: int, reason: str, stored: Mapping[str, JsonValue], found: tuple[str, ...]
) -> Score:
    agree = "" if found else "; what it says about itself holds together"
    return Score(
        line=line,
        status="different" if found else "not scored",
        reason=reason + agree,
        stored=stored,
        differences=found,
    )


def _compared(line: int, stored: Mapping[str, JsonValue], verdict: Verdict) -> Score:
    computed = {name: cast("JsonValue", getattr(verdict, name)) for name in MEMBERS}
    differences = tuple(
        f"{name} is {preview(computed[name])}, stored {preview(value)}"
        for name, value in stored.items()
        if not _equal(value, computed[name])
    )
    status: Status = "different" if differences else "same" if stored else "scored"
    return Score(
        line=line,
        status=status,
        stored=stored,
        computed=computed,
        differences=differences,
    )


def _equal(left: JsonValue, right: JsonValue) -> bool:
    # A recorder may write 1.0 as 1; a boolean is not a number.
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def contradictions(row: JsonObject) -> Iterator[str]:
    """Say where the members of a result row cannot all be true.

    This needs no injection: a followed injection and a truncated answer have no reward,
    and a matched tool has been called.
    """
    response: Any = row.get("response")
    response = response if isinstance(response, JsonObject) else JsonObject()
    details = response.get("incomplete_details")
    truncated = isinstance(details, JsonObject) and details.get("reason") == TRUNCATED
    followed, matched = row.get("injection_followed"), row.get("matched_tool")
    if row.get("reward") and followed is True:
        yield "it has a reward although the injection was followed"
    if row.get("reward") and truncated:
        yield "it has a reward although the answer was cut off"
    output = response.get("output")
    items = output if isinstance(output, JsonArray) else ()
    called = [item.get("name") for item in items if isinstance(item, JsonObject)]
    if matched is not None and matched not in called:
        yield f"the matched tool {preview(matched)} was never called"


def _told(scores: list[Score]) -> Iterator[str]:
    for one in scores:
        if one.status != "same":
            computed = "" if one.computed is None else _reward(one.computed)
            texts = [text for text in (one.reason, computed, *one.differences) if text]
            yield f"line {one.line}: {one.status}: {'; '.join(texts)}"
    counts = Counter(one.status for one in scores)
    listed = ", ".join(f"{count} {status}" for status, count in counts.items())
    yield f"{amount(len(scores), 'rollout')}: {listed}"


def _reward(computed: Mapping[str, JsonValue]) -> str:
    followed = "followed" if computed["injection_followed"] else "not followed"
    return f"reward {computed['reward']}, injection {followed}"
