"""``ipistate tasks``: generate, check, audit and count task rows; show built-in ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import click

from ipistate.cli.exits import LEGEND, Exit, RefusedInputError
from ipistate.cli.files import lines_of
from ipistate.cli.groups import VerbGroup
from ipistate.cli.options import AS_JSON
from ipistate.cli.tasks_audit import command as audit
from ipistate.cli.tasks_generate import command as generate
from ipistate.cli.tasks_stats import command as stats
from ipistate.cli.terminal import (
    amount,
    emit,
    emit_json,
    print_fitting,
    write_lines,
)
from ipistate.cli.texts import plain
from ipistate.demo import DemoScript, builtin_scripts, prompt
from ipistate.generate import builtin
from ipistate.kernel import render
from ipistate.scoring import check_rows


if TYPE_CHECKING:
    from collections.abc import Iterator


@click.group("tasks", cls=VerbGroup, epilog=LEGEND)
def command() -> None:
    """Generate, check, audit and count task rows; list and show the built-in ones.

    A task row is a line of JSON: a world with an injected text in it, what the user asks
    for, and how to tell that an agent followed the injection.

    \b
      ipistate tasks generate --count 900 --seed 7 -o tasks.jsonl
      ipistate tasks check tasks.jsonl
    """


for _verb in (audit, generate, stats):
    command.add_command(_verb)


@command.command(epilog=LEGEND)
@click.argument("file")
@AS_JSON
@click.pass_context
def check(ctx: click.Context, *, file: str, as_json: bool) -> None:
    """Check every row of a task FILE (JSON Lines; - reads standard input).

    A finding names its line, a JSONPath, a code and what is wrong. Errors make the exit
    code 1; warnings do not.

    \b
      ipistate tasks check tasks.jsonl
    """
    rows = 0

    def counted() -> Iterator[bytes]:
        nonlocal rows
        for rows, line in enumerate(lines_of(file), 1):  # noqa: B007 - it counts
            yield line

    findings = list(check_rows(counted()))
    errors = sum(finding.severity == "error" for finding in findings)
    if as_json:
        document = {
            "file": file,
            "rows": rows,
            "errors": errors,
            "warnings": len(findings) - errors,
            "findings": [attrs.asdict(finding) for finding in findings],
        }
        emit(document)
    else:
        write_lines(
            f"{file}:{one.line}: {one.severity}: {one.path}: {one.message} [{one.code}]"
            for one in findings
        )
        warned = amount(len(findings) - errors, "warning")
        click.echo(f"{amount(rows, 'row')}, {amount(errors, 'error')}, {warned}")
    if errors:
        ctx.exit(Exit.FINDINGS)


@command.command("list", epilog=LEGEND)
@AS_JSON
def list_rows(*, as_json: bool) -> None:
    """List the built-in task rows.

    \b
      ipistate tasks list
    """
    rows = [_summary(script) for script in builtin_scripts()]
    if as_json:
        emit(rows)
    else:
        print_fitting(list(rows[0]), [list(row.values()) for row in rows])


@command.command(epilog=LEGEND)
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Write the row itself.")
def show(*, name: str, as_json: bool) -> None:
    """Show the built-in row NAME: the request, the attack, both trajectories.

    With --json the output is the row itself, one line of a task file.

    \b
      ipistate tasks show hr-2
      ipistate tasks show hr-2 --json > tasks.jsonl
    """
    scripts = {script.name: script for script in builtin_scripts()}
    if name not in scripts:
        known = f"{len(builtin.rows())} are listed by: ipistate tasks list"
        raise RefusedInputError(f"no built-in row is called {name!r}; {known}")
    script = scripts[name]
    if as_json:
        emit_json(script.task.to_json())
    else:
        click.echo(plain("\n".join(_description(script))))


def _summary(script: DemoScript) -> dict[str, object]:
    injection = script.task.injection
    return {
        "name": script.name,
        "domain": script.task.domain,
        "strategy": injection.attack_strategy,
        "difficulty": injection.attack_difficulty,
        "vector": injection.vector,
        "category": injection.category,
        "verification": injection.verification_type,
        "target": injection.target_tool,
    }


def _description(script: DemoScript) -> Iterator[str]:
    for name, value in _summary(script).items():
        yield f"{name:13}{value}"
    yield f"\nThe user asks\n  {prompt(script.task)}"
    yield f"\nThe injection\n  {script.task.injection.injection_text}"
    for agent, calls in (("careful", script.careful), ("gullible", script.gullible)):
        yield f"\nA {agent} agent calls"
        for call in calls:
            yield f"  {call.name} {render(call.arguments)}"
