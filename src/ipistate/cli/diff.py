"""``ipistate diff``: what changed between two worlds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import click

from ipistate.cli.exits import LEGEND, Exit, refusing
from ipistate.cli.files import check_one_stdin, read_file
from ipistate.cli.options import AS_JSON
from ipistate.cli.terminal import amount, emit
from ipistate.cli.texts import one_line
from ipistate.errors import json_path
from ipistate.kernel import (
    Diff,
    Environment,
    JsonObject,
    diff,
    trusted_array,
    trusted_object,
)


if TYPE_CHECKING:
    from ipistate.kernel import Change


@click.command("diff", epilog=LEGEND)
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option(
    "--patch", is_flag=True, help="Write the changes as a JSON Patch (RFC 6902)."
)
@AS_JSON
@click.pass_context
def command(
    ctx: click.Context, *, before: str, after: str, patch: bool, as_json: bool
) -> None:
    """Show what changed from world A to world B, two files with a JSON object each.

    A line for each change, then counts by collection. Types and order count, as they do
    for the model that reads a world. One of the files may be -, for standard input.
    The patch of --patch, applied to A, gives B byte for byte. Exit code 1: they differ.

    \b
      ipistate diff before.json after.json
      ipistate call cancel_appointment -e world.json -a '{"appointment_id": "A-1"}' |
        tail -1 | ipistate diff world.json -
    """
    check_one_stdin(before, after)
    if patch and as_json:
        raise click.UsageError("--patch is a JSON document of its own, without --json")
    found = diff(_world(before), _world(after))
    if patch:
        emit(found.to_patch())
    elif as_json:
        emit(trusted_object({"before": before, "after": after, **document(found)}))
    else:
        for line in (*found.lines(), summary(found)):
            click.echo(one_line(line))
    if found:
        ctx.exit(Exit.FINDINGS)


def _world(name: str) -> Environment:
    with refusing(name):
        return Environment.from_json(read_file(name))


def document(found: Diff) -> JsonObject:
    """Return a diff as it stands in a report; values are as deep as in the worlds."""
    counts = found.counts().items()
    return trusted_object(
        {
            "same": not found,
            "counts": JsonObject({str(n): attrs.asdict(count) for n, count in counts}),
            "operations": trusted_array(map(_operation, found.operations)),
        }
    )


def _operation(one: Change) -> JsonObject:
    where = trusted_object({**one.to_document(), "jsonpath": json_path(one.path)})
    return where if one.op == "add" else trusted_object({**where, "old": one.old})


def summary(found: Diff) -> str:
    """Say in one line how much changed in which collections."""
    if not found:
        return "no difference"
    parts = [amount(len(found.operations), "operation")]
    for name, count in found.counts().items():
        counted = attrs.asdict(count).items()
        said = ", ".join(f"{number} {what}" for what, number in counted if number)
        parts.append(f"{one_line(str(name))} {said}")
    return "; ".join(parts)
