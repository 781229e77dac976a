"""``ipistate call``: one tool, one world, one reply."""

from __future__ import annotations

import os

import click

from ipistate.cli.exits import LEGEND, Exit, refusing
from ipistate.cli.files import read_file
from ipistate.cli.imported import OWN_TOOLS
from ipistate.cli.options import AS_JSON, STRICT, Tools
from ipistate.cli.output_files import output_file
from ipistate.cli.terminal import emit, emit_json, note
from ipistate.cli.texts import plain
from ipistate.kernel import Environment, JsonObject, decode, trusted_object
from ipistate.tools import ToolError, Transition, UnknownTool, call_tool


@click.command("call", epilog=LEGEND)
@click.argument("tool")
@click.option(
    "-a",
    "--arguments",
    metavar="JSON",
    default="{}",
    show_default=True,
    help="The call's arguments, a JSON object as a model would send it.",
)
@click.option(
    "-e",
    "--environment",
    metavar="FILE",
    required=True,
    help="JSON file with the world; - reads standard input.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the new world to this file, for the next call.",
)
@OWN_TOOLS
@STRICT
@AS_JSON
def command(
    *,
    tool: str,
    arguments: str,
    environment: str,
    output: str | None,
    tools: Tools,
    as_json: bool,
) -> None:
    """Call TOOL on a world; print the reply and the new world.

    The reply comes first, as the model would read it; the last line is the world after
    the call. The exit code is 1 if the reply is an error; the world is then unchanged.
    A tool whose name is like an unknown one is suggested.

    \b
      ipistate call update_patient_chart -e world.json -o world.json \\
        -a '{"patient_id": "P-1", "notes": "Seen today."}'
      ipistate call get_patient_record -e world.json -a '{"patient_id": "P-1"}' --json
    """
    with refusing("--arguments"):
        # The bytes that were given, in whatever encoding the system has.
        given = decode(os.fsencode(arguments))
    with refusing(environment):
        world = Environment.from_json(read_file(environment))
    done = call_tool(world, tool, given, tools=tools)
    if as_json:
        emit(_document(done))
    else:
        click.echo(plain(done.output))
        emit_json(done.environment.to_json())
        if isinstance(done.error, UnknownTool) and done.error.suggestion is not None:
            note(f"did you mean {done.error.suggestion}?")
    if output is not None:
        with output_file(output) as put:
            put(done.environment.to_json() + b"\n")
    if done.error is not None:
        click.get_current_context().exit(Exit.FINDINGS)


def _document(done: Transition) -> JsonObject:
    # The world may be as deep as worlds can be, so nothing is checked again.
    return trusted_object(
        {
            "output": done.output,
            "error": _shown(done.error),
            "environment": done.environment.document,
        }
    )


def _shown(error: ToolError | None) -> JsonObject | None:
    if error is None:
        return None
    near = {"suggestion": error.suggestion} if isinstance(error, UnknownTool) else {}
    return JsonObject({"type": error.type, "message": error.message, **near})
